"""Policies on trial: a comparison with stricter habits.

Baselines take part whether asked for or not, seeds come from the test range and are at least ten, and what comes out is
not only a mean but who won and who lost, where, and what a gain was bought with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pilotage.model.errors import InputError
from pilotage.policies.registry import find_policy
from pilotage.sim.compare import METRICS, Outcome, compare
from pilotage.sim.engines import Engine, LocalEngine
from pilotage.sim.scenario import Scenario
from pilotage.sim.seeds import REPORTED, TRAINING, by_range, seeds_text
from pilotage.sim.shift import AS_GIVEN, Condition, shifted
from pilotage.sim.verdicts import Case, Tally, cases_of, tallies_of

if TYPE_CHECKING:
    from pilotage.sim.run_store import RunStore

GPU_BASELINES: Final = ("fgd", "best-fit", "least-allocated", "random")
CPU_BASELINES: Final = ("least-allocated", "balanced-allocation", "round-robin", "random")
FEWEST_SEEDS: Final = 10


@dataclass(frozen=True)
class Trial:
    """What to evaluate: policies, what they are measured against, and under which conditions."""

    contenders: tuple[str, ...]  # as written
    baselines: tuple[str, ...]  # differences are to the first
    conditions: tuple[Condition, ...]
    metrics: tuple[str, ...] = ()  # () = what fits each trace
    notes: tuple[str, ...] = ()  # what a reader should know beforehand

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.conditions[0].comparison.seeds


@dataclass(frozen=True)
class Requirements:
    """What the answer must be at least; None = nothing is required."""

    traces: float | None = None  # share of traces won, all conditions together
    seeds: float | None = None  # share of seeds won
    room: float | None = None  # percent of the room closed on every trace, as given


@dataclass(frozen=True)
class Evaluation:
    """What came of a trial."""

    trial: Trial
    outcomes: tuple[Outcome, ...]  # one per condition
    cases: tuple[Case, ...]
    tallies: tuple[Tally, ...]
    missed: tuple[str, ...] = field(default=())

    @property
    def baseline(self) -> str:
        """Full name of the first baseline."""
        return find_policy(self.trial.baselines[0]).name

    def findings(self) -> dict[str, object]:
        """Plain data: seeds by range, cases, tallies, missed requirements, notes."""
        return {
            "seeds": {name: list(seeds) for name, seeds in by_range(self.trial.seeds).items()},
            "baselines": [find_policy(text).name for text in self.trial.baselines],
            "cases": [asdict(case) for case in self.cases],
            "verdicts": [asdict(tally) for tally in self.tallies],
            "missed": list(self.missed),
            "notes": list(self.trial.notes),
        }


# What to evaluate


def trial_of(
    scenario: Scenario,
    baselines: tuple[str, ...] | None = None,
    metrics: tuple[str, ...] = (),
    *,
    shift: bool = False,
    few_seeds: bool = False,
    training_seeds: bool = False,
) -> Trial:
    """Everything checked. The scenario's policies are the contenders; its baseline, if any, comes first."""
    if not scenario.policies:
        raise InputError("no policy to evaluate", expected="names such as fgd or best-fit, or a checkpoint")
    for metric in metrics:
        if metric not in METRICS:
            raise InputError(f"{metric!r}", field="--metric", expected=f"one of {', '.join(METRICS)}")
    seeds = scenario.seeds or REPORTED
    notes = _checked_seeds(seeds, few=few_seeds, training=training_seeds)
    rivals = _rivals(scenario, baselines)
    asked = replace(scenario, policies=(*scenario.policies, *rivals), seeds=seeds, baseline=rivals[0])
    base = asked.comparison()
    conditions, missing = shifted(base) if shift else ([], [])
    return Trial(scenario.policies, rivals, (Condition(AS_GIVEN, base), *conditions), metrics, (*notes, *missing))


def _rivals(scenario: Scenario, asked: tuple[str, ...] | None) -> tuple[str, ...]:
    """The baselines that are not themselves evaluated."""
    names = asked or _usual_baselines(scenario)
    if scenario.baseline is not None:
        first = find_policy(scenario.baseline).name
        names = (scenario.baseline, *(text for text in names if find_policy(text).name != first))
    own = {find_policy(text).name for text in scenario.policies or ()}
    rivals = tuple(text for text in names if find_policy(text).name not in own)
    if not rivals:
        raise InputError("every baseline is itself evaluated", field="--baselines", expected="another policy")
    return rivals


def _usual_baselines(scenario: Scenario) -> tuple[str, ...]:
    traces = [source.load() for source in scenario.traces or ()]
    asks_for_gpu = any(trace.workload.gpu_milli_P.any() for trace in traces)
    return GPU_BASELINES if asks_for_gpu else CPU_BASELINES


def _checked_seeds(seeds: Sequence[int], *, few: bool, training: bool) -> list[str]:
    """What is to be said about the seeds; refused where they prove nothing."""
    if len(seeds) < FEWEST_SEEDS and not few:
        problem = f"{len(seeds)} seeds are too few to tell luck from skill"
        raise InputError(problem, field="--seeds", expected=f"at least {FEWEST_SEEDS}, or --allow-few-seeds")
    found = by_range(seeds)
    if "training" in found and not training:
        problem = f"{seeds_text(found['training'])} are for training ({TRAINING[0]} to {TRAINING[-1]})"
        raise InputError(problem, field="--seeds", expected="seeds below 10000, or --allow-training-seeds")
    notes = [f"seeds {seeds_text(members)}: {name} range" for name, members in found.items() if name != "outside"]
    if "validation" in found:
        notes.append("settings are chosen on the validation range: results on it look better than they are")
    if "outside" in found:
        notes.append(f"seeds {seeds_text(found['outside'])}: in none of the project's ranges")
    return notes


# Carrying it out


def evaluate(
    trial: Trial,
    engine: Engine = LocalEngine(),
    store: RunStore | None = None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    requirements: Requirements = Requirements(),
) -> Evaluation:
    """Runs every condition; finished runs are taken from the store."""
    contenders = [find_policy(text).name for text in trial.contenders]
    baselines = [find_policy(text).name for text in trial.baselines]
    outcomes: list[Outcome] = []
    cases: list[Case] = []
    for condition in trial.conditions:
        outcome = compare(condition.comparison, engine, store, partial(progress, condition.name))
        outcomes.append(outcome)
        cases += cases_of(condition.name, outcome, contenders, baselines, trial.metrics)
    found = Evaluation(trial, tuple(outcomes), tuple(cases), tuple(tallies_of(cases)))
    return replace(found, missed=tuple(_missed(found, contenders, requirements)))


def _missed(found: Evaluation, contenders: Sequence[str], wanted: Requirements) -> list[str]:
    """Requirements that are not met, against the first baseline and by the first metric of each trace."""
    missed = []
    for policy in contenders:
        cases = counted(case for case in found.cases if (case.policy, case.baseline) == (policy, found.baseline))
        won = sum(case.verdict == "won" for case in cases)
        if wanted.traces is not None and won < wanted.traces * len(cases):
            missed.append(f"{policy} won {won} of {len(cases)} traces against {found.baseline}")
        seeds = sum(case.seeds_won + case.seeds_lost + case.seeds_tied for case in cases)
        seeds_won = sum(case.seeds_won for case in cases)
        if wanted.seeds is not None and seeds_won < wanted.seeds * seeds:
            missed.append(f"{policy} won {seeds_won} of {seeds} seeds against {found.baseline}")
        for case in cases if wanted.room is not None else ():
            if case.condition == AS_GIVEN and (case.room_closed_percent or 0.0) < (wanted.room or 0.0):
                closed = "none" if case.room_closed_percent is None else f"{case.room_closed_percent:.1f} %"
                missed.append(f"{policy} closes {closed} of the room on {case.trace}")
    return missed


def counted(cases: Iterable[Case]) -> list[Case]:
    """Of several metrics on one trace, the first."""
    first: dict[tuple[str, str, float, str, str], Case] = {}
    for case in cases:
        first.setdefault((case.condition, case.trace, case.load, case.policy, case.baseline), case)
    return list(first.values())
