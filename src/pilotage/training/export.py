"""From torch to checkpoints and back: the same tensors under the same names."""

from __future__ import annotations

import torch

from pilotage.model.errors import InputError
from pilotage.policies.architectures import INPUTS
from pilotage.policies.checkpoints import Checkpoint, Origin
from pilotage.training.networks import GraphScorer, Scorer


def checkpoint_of(scorer: Scorer | GraphScorer, name: str, summary: str = "", origin: Origin = Origin()) -> Checkpoint:
    """The scorer as plain data; later changes of its weights do not reach it."""
    tensors = {key: tensor.detach().cpu().numpy().copy() for key, tensor in scorer.state_dict().items()}
    return Checkpoint(name, scorer.architecture, tensors, summary, origin)


def scorer_of(checkpoint: Checkpoint) -> Scorer | GraphScorer:
    """The network of a checkpoint, to go on training it."""
    made = checkpoint.architecture
    if made.kind not in ("mlp", "graph"):
        raise InputError(f"{checkpoint.name} is no network but of kind {made.kind}", expected="mlp or graph")
    scorer = Scorer(INPUTS, **made.settings) if made.kind == "mlp" else GraphScorer(INPUTS, **made.settings)
    scorer.load_state_dict({key: torch.tensor(tensor) for key, tensor in checkpoint.tensors.items()})
    return scorer
