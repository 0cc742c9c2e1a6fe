"""What can be set about a training. The command line is made from these classes: name, default, bounds, help, group.

Plain data without imports of torch or numpy, so that `--help` stays quick.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple, get_type_hints

from pilotage.model.errors import InputError, UnknownNameError

Network = Literal["mlp", "graph"]

ENVIRONMENT, NETWORK, LEARNING, EXPLORING, COURSE = "Environment", "Network", "Learning", "Exploring", "Course"


class Bounds(NamedTuple):
    """Least and most that a number may be."""

    least: float
    most: float


class SearchRange(NamedTuple):
    """Where `train search` looks for a better value."""

    low: float
    high: float
    log: bool = True


def option(
    default: Any, text: str, group: str, bounds: tuple[float, float] | None = None, search: SearchRange | None = None
) -> Any:
    """A field with what the command line and the search need to know about it."""
    limits = None if bounds is None else Bounds(*bounds)
    return field(default=default, metadata={"help": text, "group": group, "bounds": limits, "search": search})


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """What all agents share."""

    algorithm: ClassVar[str] = ""

    env: str = option("balance", "Environment: balance, packing or load.", ENVIRONMENT)
    nodes: str = option("", "Nodes of each episode, fewest-most; if not given 3-16, in packing 8-24.", ENVIRONMENT)
    pods_per_node: float = option(0.0, "Pods / nodes of an episode; 0 = the environment's own.", ENVIRONMENT, (0, 1e4))
    workload: str = option(
        "", "Pods: uniform, mixed or a shipped trace; else mixed, in packing openb-like.", ENVIRONMENT
    )
    objectives: str = option("", "Reward, as balance=1,load=0.2; if not given the environment's own.", ENVIRONMENT)
    node_changes: float = option(0.0, "Chance per step that a node fails or comes back.", ENVIRONMENT, (0, 1))
    copies: int = option(64, "Clusters that are played at once.", ENVIRONMENT, (1, 65_536))

    network: Network = option("mlp", "mlp: each node by itself; graph: attention.", NETWORK)  # noqa: RUF009
    hidden: int = option(64, "Width of hidden layers.", NETWORK, (1, 1024), SearchRange(16, 128))
    depth: int = option(2, "Hidden layers; 0 = linear (mlp).", NETWORK, (0, 8), SearchRange(1, 3, log=False))
    heads: int = option(4, "Attention heads (graph); they share the width.", NETWORK, (1, 16))

    learning_rate: float = option(3e-3, "Of Adam.", LEARNING, (0, 1), SearchRange(1e-4, 1e-2))
    final_learning_rate: float = option(0.05, "Learning rates fall to this part of them.", LEARNING, (0, 1))

    steps: int = option(200_000, "Decisions in all clusters together.", COURSE, (1, 10**10))
    evaluate_every: int = option(20_000, "Steps between validations; the state is saved then.", COURSE, (1, 10**10))
    validation_episodes: int = option(32, "Held-out episodes of each validation.", COURSE, (1, 10_000))
    patience: int = option(0, "Validations without a better one before it ends early; 0 = never.", COURSE, (0, 10**6))
    seed: int = option(1, "Of everything random; the clusters are those of training seeds.", COURSE, (0, 889_999))
    threads: int = option(1, "Threads of the numerical library.", COURSE, (1, 1024))


@dataclass(frozen=True, kw_only=True)
class RegressionSettings(TrainingSettings):
    """The effect of a placement, foretold from what is seen of node and pod."""

    algorithm: ClassVar[str] = "regression"

    epsilon: float = option(1.0, "Share of random decisions at first.", EXPLORING, (0, 1))
    epsilon_decay: float = option(0.5, "Share of the steps over which it falls to its least.", EXPLORING, (0, 1))
    epsilon_least: float = option(0.2, "Share of random decisions at last.", EXPLORING, (0, 1))
    explore_with: str = option("uniform", "Random decisions: uniform, or the choice of a policy by name.", EXPLORING)
    batch: int = option(256, "Decisions per update.", LEARNING, (1, 65_536), SearchRange(64, 1024))
    update_every: int = option(128, "Steps between updates.", LEARNING, (1, 10**6))
    buffer: int = option(20_000, "Newest decisions that are learned from.", LEARNING, (1, 10**7))


@dataclass(frozen=True, kw_only=True)
class DqnSettings(RegressionSettings):
    """Double DQN: the effect of a placement and of what follows."""

    algorithm: ClassVar[str] = "dqn"

    gamma: float = option(0.3, "Weight of the next reward.", LEARNING, (0, 1), SearchRange(0.0, 0.9, log=False))
    target_update_every: int = option(10_000, "Steps between renewals of the target network.", LEARNING, (1, 10**9))
    epsilon_least: float = option(0.05, "Share of random decisions at last.", EXPLORING, (0, 1))


@dataclass(frozen=True, kw_only=True)
class ActorCriticSettings(TrainingSettings):
    """Advantage actor-critic with generalised advantages."""

    algorithm: ClassVar[str] = "actor_critic"

    critic_learning_rate: float = option(3e-3, "Of Adam, for the critic.", LEARNING, (0, 1), SearchRange(1e-4, 1e-2))
    gamma: float = option(0.3, "Weight of the next reward.", LEARNING, (0, 1), SearchRange(0.0, 0.9, log=False))
    gae_lambda: float = option(0.9, "0 = advantage of one step, 1 = of all that follow.", LEARNING, (0, 1))
    rollout: int = option(4, "Steps of each cluster between updates.", LEARNING, (1, 4096))
    entropy: float = option(0.01, "Weight of the entropy: higher explores longer.", EXPLORING, (0, 10))
    gradient_norm: float = option(0.5, "Gradients are cut to this norm.", LEARNING, (0, 1e9))


@dataclass(frozen=True, kw_only=True)
class PpoSettings(ActorCriticSettings):
    """Proximal policy optimisation."""

    algorithm: ClassVar[str] = "ppo"

    rollout: int = option(32, "Steps of each cluster between updates.", LEARNING, (1, 4096))
    clip: float = option(0.2, "Largest change of a decision's probability that counts.", LEARNING, (0, 1))
    epochs: int = option(4, "Times each decision is learned from.", LEARNING, (1, 100))
    batch: int = option(512, "Decisions per update.", LEARNING, (1, 65_536), SearchRange(128, 2048))


@dataclass(frozen=True, kw_only=True)
class ImitationSettings(TrainingSettings):
    """Decisions of somebody else, learned by heart and by rule."""

    algorithm: ClassVar[str] = "imitation"

    of: str = option("least-allocated", "Policy to imitate, by name, file or directory.", LEARNING)
    decisions: str = option("", "Recorded decisions instead (decisions.parquet of `pilotage simulate`).", LEARNING)
    recorded_nodes: str = option("", "With --decisions: nodes it was recorded on, a file or a shipped trace.", LEARNING)
    batch: int = option(256, "Decisions per update.", LEARNING, (1, 65_536), SearchRange(64, 1024))
    candidates: int = option(32, "Nodes kept of each recorded decision: the chosen one and a draw.", LEARNING, (2, 512))
    update_every: int = option(128, "Steps between updates.", LEARNING, (1, 10**6))
    buffer: int = option(20_000, "Newest decisions that are learned from.", LEARNING, (1, 10**7))
    own_decisions: float = option(0.5, "Share of steps the learner decides itself.", EXPLORING, (0, 1))


AGENTS: dict[str, TrainingSettings] = {
    "mlp": RegressionSettings(),
    "dqn": DqnSettings(),
    "gnn-dqn": DqnSettings(network="graph", hidden=32),
    "ac-mlp": ActorCriticSettings(),
    "ac-gnn": ActorCriticSettings(network="graph", hidden=32),
    "ppo": PpoSettings(),
    "imitation": ImitationSettings(),
}


def default_settings(agent: str) -> TrainingSettings:
    if agent not in AGENTS:
        raise UnknownNameError("agent", agent, AGENTS)
    return AGENTS[agent]


def settings_text(agent: str, settings: TrainingSettings) -> str:
    return json.dumps({"agent": agent} | asdict(settings), indent=2) + "\n"


def read_settings(text: str | bytes, file: object) -> tuple[str, TrainingSettings]:
    """Agent and settings of a run directory, checked as options of the command line are."""
    try:
        content = json.loads(text)  # a text that is not UTF-8 is a ValueError too
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", file=file) from None
    if not isinstance(content, dict):
        raise InputError("is no JSON object", file=file, expected="settings of a training")
    agent = content.pop("agent", None)
    if not isinstance(agent, str):
        raise InputError("is missing or no text", file=file, field="agent", expected="the name of an agent")
    if agent not in AGENTS:
        raise UnknownNameError("agent", agent, AGENTS, file=file)
    return agent, settings_from(agent, content, file)


def settings_from(agent: str, values: Mapping[str, object], file: object = None) -> TrainingSettings:
    """The agent's settings with some of its defaults replaced."""
    defaults = default_settings(agent)
    types = get_type_hints(type(defaults))
    known = {entry.name: entry for entry in fields(defaults)}
    given = asdict(defaults)
    for name, value in values.items():
        if name not in known:
            raise UnknownNameError("setting", name, known, file=file)
        given[name] = _checked(name, value, types[name], known[name].metadata["bounds"], file)
    return type(defaults)(**given)


def _checked(name: str, value: object, kind: object, bounds: Bounds | None, file: object) -> object:
    place: dict[str, Any] = {"file": file, "field": option_name(name) if file is None else name}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind == Network:
        if value not in ("mlp", "graph"):
            raise UnknownNameError("network", str(value), ("mlp", "graph"), **place)
    elif not isinstance(kind, type) or not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(f"{value!r}", expected=f"a value of type {getattr(kind, '__name__', kind)}", **place)
    if bounds is not None and isinstance(value, int | float) and not bounds.least <= value <= bounds.most:
        raise InputError(f"{value:g}", expected=f"{bounds.least:g} to {bounds.most:g}", **place)
    return value


def option_name(name: str) -> str:
    return "--" + name.replace("_", "-")


def changed_options(agent: str, settings: TrainingSettings) -> list[str]:
    """The words of a command line that give these settings."""
    defaults = asdict(default_settings(agent))
    changed = {name: value for name, value in asdict(settings).items() if value != defaults[name]}
    return [word for name, value in changed.items() for word in (option_name(name), _written(value))]


def _written(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def search_ranges(settings: TrainingSettings) -> dict[str, SearchRange]:
    """What may be searched for, by name."""
    found = {entry.name: entry.metadata["search"] for entry in fields(settings) if entry.default is not MISSING}
    return {name: wanted for name, wanted in found.items() if wanted is not None}
