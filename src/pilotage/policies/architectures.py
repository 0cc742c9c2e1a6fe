"""Kinds of learned policies: their settings, the tensors they consist of, and what they look at.

Everything here is known before a weight is read, so a file that does not match is refused before it takes memory.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pilotage.kernels.inputs import INPUTS_VERSION, NODE_INPUTS, POD_INPUTS
from pilotage.policies.api import FeatureSchema
from pilotage.policies.cluster_graph import LEVELS
from pilotage.policies.priced import FEATURES as PRICED_FEATURES
from pilotage.policies.priced import LAYOUT

Tensor = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Shapes = dict[str, tuple[int, ...]]

INPUTS = len(NODE_INPUTS) + len(POD_INPUTS)
LIMITS = {"hidden": (1, 1024), "depth": (0, 8), "heads": (1, 16), "valuations": (1, 64)}
SETTINGS: dict[str, tuple[str, ...]] = {  # of each kind
    "prices": ("valuations",),
    "mlp": ("hidden", "depth"),
    "graph": ("hidden", "depth", "heads"),
    "window": ("hidden",),  # places no pods: when a synchronous job divides its budget anew
}
DTYPES: dict[str, np.dtype[Any]] = {
    "prices": np.dtype("<f8"),
    "mlp": np.dtype("<f4"),
    "graph": np.dtype("<f4"),
    "window": np.dtype("<f8"),
}
_INPUT_ROWS = FeatureSchema(pod=POD_INPUTS, node=NODE_INPUTS, version=INPUTS_VERSION)
# Of each action, and of the moment: in the order of kernels.gang_windows.observe.
_WINDOW_ROWS = FeatureSchema(
    pod=("penalty", "left"), node=("behind_the_plan", "next_step", "three_steps", "all_steps", "keeps", "window")
)
WINDOW_INPUTS = len(_WINDOW_ROWS.node) + len(_WINDOW_ROWS.pod)
SEEN = {  # columns that each kind looks at
    "prices": PRICED_FEATURES,
    "mlp": _INPUT_ROWS,
    "graph": _INPUT_ROWS,
    "window": _WINDOW_ROWS,
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """Kind and size of a scorer; a setting that the kind does not have is 0."""

    kind: str
    hidden: int = 0  # width of hidden layers
    depth: int = 0  # mlp: hidden layers, 0 = linear; graph: layers of attention
    heads: int = 0  # of attention; a divisor of `hidden`
    valuations: int = 0  # prices: how many sets of parameters, of which a rehearsal chooses

    @property
    def settings(self) -> dict[str, int]:
        return {key: asdict(self)[key] for key in SETTINGS[self.kind]}

    @property
    def shapes(self) -> Shapes:
        """Every tensor by name; names of networks are those of their modules in pilotage.training.networks."""
        if self.kind == "prices":
            return {name: (self.valuations, length) for name, length in LAYOUT.items()}
        if self.kind == "window":
            return {
                "plan": (1,),
                "inner_UI": (self.hidden, WINDOW_INPUTS),
                "bias_U": (self.hidden,),
                "outer_U": (self.hidden,),
            }
        return self._mlp_shapes() if self.kind == "mlp" else self._graph_shapes()

    @property
    def weights(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def _mlp_shapes(self) -> Shapes:
        widths = [INPUTS, *[self.hidden] * self.depth, 1]
        return {
            name: shape
            for k in range(self.depth + 1)
            for name, shape in _linear(f"layers.{k}", widths[k], widths[k + 1]).items()
        }

    def _graph_shapes(self) -> Shapes:
        hidden = self.hidden
        shapes = {"body.levels": (len(LEVELS), hidden), **_linear("body.embed", INPUTS, hidden)}
        for k in range(self.depth):
            layer = f"body.attention.{k}"
            shapes |= _linear(f"{layer}.lin_l", hidden, hidden) | _linear(f"{layer}.lin_r", hidden, hidden)
            shapes |= {f"{layer}.att": (1, self.heads, hidden // self.heads), f"{layer}.bias": (hidden,)}
        return shapes | _linear("inner", hidden, hidden) | _linear("score", hidden, 1)


def _linear(name: str, width: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, width), f"{name}.bias": (outputs,)}
