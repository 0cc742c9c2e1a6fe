"""Evaluations: who takes part, which seeds count, and what is required of the answer."""

from __future__ import annotations

from statistics import mean

import pytest

from pilotage.model.errors import InputError
from pilotage.sim.evaluation import CPU_BASELINES, GPU_BASELINES, Evaluation, Requirements, evaluate, trial_of
from pilotage.sim.scenario import Scenario
from pilotage.sim.seeds import REPORTED
from pilotage.sim.specs import TraceSource

EVEN = Scenario(traces=(TraceSource(name="balance-10"),), policies=("round-robin",))
GPU = Scenario(traces=(TraceSource(name="openb-like"),), policies=("gpu-packing",))


def evaluated(scenario: Scenario, *, shift: bool = False, **required: float) -> Evaluation:
    return evaluate(trial_of(scenario, shift=shift), requirements=Requirements(**required))


def test_baselines_take_part_unasked() -> None:
    trial = trial_of(GPU)
    assert trial.baselines == GPU_BASELINES
    assert trial.conditions[0].comparison.policies == ("gpu-packing", *GPU_BASELINES)
    assert trial.seeds == REPORTED
    assert trial_of(Scenario(traces=EVEN.traces, policies=("fgd",))).baselines == CPU_BASELINES


def test_a_baseline_that_is_evaluated_is_no_baseline() -> None:
    trial = trial_of(Scenario(traces=GPU.traces, policies=("fgd",)))
    assert trial.baselines == GPU_BASELINES[1:]
    with pytest.raises(InputError, match="itself evaluated"):
        trial_of(GPU, baselines=("gpu-packing@1",))


def test_the_baseline_of_a_scenario_comes_first() -> None:
    scenario = Scenario(traces=GPU.traces, policies=("gpu-packing",), baseline="best-fit")
    assert trial_of(scenario).baselines == ("best-fit", "fgd", "least-allocated", "random")


def test_few_seeds_and_training_seeds_are_refused() -> None:
    few = Scenario(traces=EVEN.traces, policies=EVEN.policies, seeds=(1, 2))
    with pytest.raises(InputError, match="--allow-few-seeds"):
        trial_of(few)
    assert trial_of(few, few_seeds=True).seeds == (1, 2)
    trained = Scenario(traces=EVEN.traces, policies=EVEN.policies, seeds=tuple(range(9_995, 10_005)))
    with pytest.raises(InputError, match="10000-10004 are for training"):
        trial_of(trained)
    notes = trial_of(trained, training_seeds=True).notes
    assert notes == ("seeds 9995-9999: test range", "seeds 10000-10004: training range")


def test_it_is_said_where_other_seeds_come_from() -> None:
    seeds = (*range(900_000, 900_009), 5_000_000)
    notes = trial_of(Scenario(traces=EVEN.traces, policies=EVEN.policies, seeds=seeds)).notes
    assert "seeds 900000-900008: validation range" in notes
    assert any("look better than they are" in note for note in notes)
    assert any("5000000" in note and "none of" in note for note in notes)


@pytest.mark.parametrize(
    ("scenario", "metrics", "problem"),
    [
        (Scenario(traces=EVEN.traces), (), "no policy"),
        (Scenario(policies=("fgd",)), (), "no trace"),
        (EVEN, ("speed",), "--metric"),
    ],
)
def test_bad_questions_are_refused(scenario: Scenario, metrics: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        trial_of(scenario, metrics=metrics)


def test_random_placement_is_as_uneven_as_chance_makes_it() -> None:
    found = evaluated(EVEN)
    # Binomial: 150 pods on 10 workers of 64 CPU, 150 x 0.1 x 0.9 / 64^2 = 0.0033.
    uneven = [run.cpu_variance for run in found.outcomes[0].runs if run.policy == "random@1"]
    assert len(uneven) == 10
    assert 0.002 < mean(uneven) < 0.0046
    # Pods of one size, equal workers: round-robin and least-allocated are both perfectly even.
    (tied,) = [case for case in found.cases if (case.metric, case.baseline) == ("cpu_variance", "least-allocated@1")]
    (won,) = [case for case in found.cases if (case.metric, case.baseline) == ("cpu_variance", "random@1")]
    assert (tied.verdict, tied.seeds_tied, won.verdict, won.seeds_won) == ("tied", 10, "won", 10)
    assert found.missed == ()


def test_variances_are_those_of_the_nodes_at_the_end() -> None:
    import numpy as np

    from pilotage.policies.registry import find_policy
    from pilotage.sim.protocols import openb_run
    from pilotage.sim.results import openb_result

    trace = TraceSource(name="balance-mixed-3").load()
    run = openb_run(trace, find_policy("random"), 3, 0.0)
    run.advance()
    result = openb_result(run, trace.name, "random@1", 3, 0.0)
    used = {node: [0, 0] for node in range(3)}
    for pod, node in enumerate(run.scene.progress.node_P):
        shape = run.workload.shapes[run.workload.shape_P[pod]]
        used[int(node)][0] += shape.cpu_milli
        used[int(node)][1] += shape.memory_bytes
    assert result.cpu_variance == pytest.approx(np.var([cpu / 64_000 for cpu, _ in used.values()]))
    assert result.memory_variance == pytest.approx(np.var([memory / (256 * 2**30) for _, memory in used.values()]))


def test_requirements_that_are_missed_are_named() -> None:
    found = evaluated(EVEN, traces=0.5, seeds=0.1, room=1.0)
    assert found.missed == (
        "round-robin@1 won 0 of 1 traces against least-allocated@1",
        "round-robin@1 won 0 of 10 seeds against least-allocated@1",
        "round-robin@1 closes none of the room on balance-10",
    )
    better = Scenario(traces=EVEN.traces, policies=EVEN.policies, baseline="random")
    assert evaluated(better, traces=1.0, seeds=1.0).missed == ()


def test_a_shift_is_part_of_the_answer() -> None:
    found = evaluated(EVEN, shift=True)
    conditions = [condition.name for condition in found.trial.conditions]
    assert conditions[0] == "as given"
    assert len(conditions) == len(found.outcomes) > 3
    assert {case.condition for case in found.cases} == set(conditions)
    tallies = [t for t in found.tallies if t.baseline == "random@1" and t.metric == "cpu_variance"]
    assert [tally.condition for tally in tallies] == conditions
    assert all(tally.traces_lost == 0 for tally in tallies)
