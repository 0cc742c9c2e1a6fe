"""Evolution: the same however often it is interrupted and wherever its trials run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pilotage.cli import app
from pilotage.model.errors import InputError
from pilotage.policies.priced import LAYOUT, PARAMETERS, Priced
from pilotage.policies.registry import find_policy
from pilotage.sim.seeds import TRAINING, range_of
from pilotage.sim.specs import TraceSource
from pilotage.training.evolution import EvolutionSettings, Workloads
from pilotage.training.evolution_directory import EvolutionDirectory
from pilotage.training.evolution_start import prepared_workloads, prior, start_parameters
from pilotage.training.evolving import evolve
from pilotage.training.run_directory import alone_in
from pilotage.training.settings import default_settings, settings_text
from pilotage.training.trials import Figures
from pilotage.training.workers import LocalWorkers, Task

SOURCE = TraceSource(name="varied-10000")
SETTINGS = EvolutionSettings(generations=4, population=6, spread=0.05, varied=1, validate_every=2, validation_seeds=1)


@pytest.fixture(scope="module")
def workloads() -> Workloads:
    return [*prepared_workloads([SOURCE], 1, SETTINGS)][-1]


def fresh(path: Path, workloads: Workloads, settings: EvolutionSettings = SETTINGS) -> EvolutionDirectory:
    directory = EvolutionDirectory(path, "small@1", settings, workloads, prior(settings.objective))
    directory.create()
    return directory


def files(path: Path) -> dict[str, bytes]:
    """All that does not hold times."""
    found = (p for p in sorted(path.rglob("*")) if p.is_file() and p.parent.name != "events")
    return {str(p.relative_to(path)): p.read_bytes() for p in found}


class Recorder(LocalWorkers):
    """Workers that remember what they were asked for."""

    def __init__(self) -> None:
        super().__init__(1)
        self.asked: list[Task] = []

    def figures(self, tasks: Sequence[Task]) -> list[list[Figures]]:
        self.asked += tasks
        return super().figures(tasks)


@pytest.fixture(scope="module")
def whole(workloads: Workloads, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recorder]:
    path, workers = tmp_path_factory.mktemp("evolution") / "whole", Recorder()
    evolve(fresh(path, workloads), workers)
    return path, workers


def test_what_it_leaves_behind_is_a_policy(whole: tuple[Path, Recorder]) -> None:
    policy = find_policy(str(whole[0] / "best"))
    assert isinstance(policy, Priced)
    assert policy.name == "small@1"
    assert len(policy.parameters) == PARAMETERS
    said = json.loads((whole[0] / "best" / "policy.json").read_text())
    assert said["training"]["agent"] == "evolution"
    assert [range_of(seed) for seed in said["seeds"]["training"]] == ["training", "training"]
    assert [range_of(seed) for seed in said["seeds"]["validation"]] == ["validation", "validation"]


def test_tensorboard_finds_its_curves(whole: tuple[Path, Recorder]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(whole[0] / "events"))
    events.Reload()
    assert {"spread", "fitness_best", "validation", "room_closed/varied-10000"} <= {*events.Tags()["scalars"]}
    assert [event.step for event in events.Scalars("validation")] == [0, 2, 4]


def test_candidates_see_training_seeds_and_the_choice_validation_seeds(whole: tuple[Path, Recorder]) -> None:
    seeds = {trial.seed for task in whole[1].asked for trial in task}
    assert {range_of(seed) for seed in seeds} == {"training", "validation"}
    assert {seed for seed in seeds if range_of(seed) == "training"} == {
        *TRAINING[: SETTINGS.generations * SETTINGS.seeds]
    }


def test_parts_that_are_not_searched_stay(whole: tuple[Path, Recorder]) -> None:
    ends = np.cumsum([*LAYOUT.values()])
    place = [*LAYOUT].index("cpu_share")
    for task in whole[1].asked:
        for trial in task:
            if trial.parameters:
                assert not any(trial.parameters[ends[place - 1] : ends[place]])


@pytest.mark.parametrize("stop_after", [1, 2, 4])
def test_a_stopped_one_goes_on_exactly(
    workloads: Workloads, whole: tuple[Path, Recorder], tmp_path: Path, stop_after: int
) -> None:
    path = tmp_path / "stopped"
    directory, seen = fresh(path, workloads), 0

    def stop() -> bool:
        nonlocal seen
        seen += 1
        return seen > stop_after

    evolve(directory, LocalWorkers(1), stop=stop)
    with (path / "generations.jsonl").open("ab") as stream:
        stream.write(b'{"number": 99, "val')  # as a kill would leave it
    evolve(EvolutionDirectory.existing(path), LocalWorkers(1))
    assert files(path) == files(whole[0])


SLOPE = replace(SETTINGS, method="slope", population=8, spread=0.3)


@pytest.fixture(scope="module")
def along_a_slope(workloads: Workloads, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recorder]:
    path, workers = tmp_path_factory.mktemp("slope") / "whole", Recorder()
    evolve(fresh_slope(path, workloads), workers)
    return path, workers


def fresh_slope(path: Path, workloads: Workloads) -> EvolutionDirectory:
    """Every parameter has a step; finding good ones is another test's."""
    steps = np.full(PARAMETERS, 0.01)
    given = replace(workloads, varied=())
    directory = EvolutionDirectory(path, "small@1", SLOPE, given, prior("packing"), steps)
    directory.create()
    return directory


@pytest.mark.parametrize("stop_after", [1, 2])
def test_one_that_follows_a_slope_goes_on_exactly(
    workloads: Workloads, along_a_slope: tuple[Path, Recorder], tmp_path: Path, stop_after: int
) -> None:
    """After the pairs that told the slope, and after the places along it."""
    seen = 0

    def stop() -> bool:
        nonlocal seen
        seen += 1
        return seen > stop_after

    evolve(fresh_slope(tmp_path / "stopped", workloads), LocalWorkers(1), stop=stop)
    with LocalWorkers(2) as workers:
        evolve(EvolutionDirectory.existing(tmp_path / "stopped"), workers)
    assert files(tmp_path / "stopped") == files(along_a_slope[0])


def test_pairs_have_a_run_of_their_own_and_places_have_all(
    workloads: Workloads, along_a_slope: tuple[Path, Recorder]
) -> None:
    baseline, *tasks = along_a_slope[1].asked[: 1 + SLOPE.population]
    seeds = [trial.seed for trial in baseline if trial.source == SOURCE]
    assert len(seeds) == SLOPE.seeds
    ups, downs = tasks[: SLOPE.population // 2], tasks[SLOPE.population // 2 :]
    for k, (up, down) in enumerate(zip(ups, downs, strict=True)):
        assert [trial.source for trial in up] == [*workloads.given]
        assert [(trial.source, trial.seed) for trial in up] == [(trial.source, trial.seed) for trial in down]
        assert up[0].seed == seeds[k % len(seeds)]
        middle = (np.array(up[0].parameters) + np.array(down[0].parameters)) / 2
        assert middle == pytest.approx(prior("packing"))
    places = [task for task in along_a_slope[1].asked if len(task) == len(seeds) and task[0].parameters]
    assert len(places) == 14, "two generations of seven"


def test_a_kill_between_a_generation_and_its_checkpoint_is_made_good(
    workloads: Workloads, whole: tuple[Path, Recorder], tmp_path: Path
) -> None:
    directory = fresh(tmp_path / "killed", workloads)
    evolve(directory, LocalWorkers(1))
    (directory.path / "curve.csv").unlink()
    shutil.rmtree(directory.path / "best")
    evolve(EvolutionDirectory.existing(directory.path), LocalWorkers(1))
    assert files(directory.path) == files(whole[0])


def test_one_that_is_stopped_keeps_the_best_so_far(workloads: Workloads, tmp_path: Path) -> None:
    """Validated once more, though the generation is not one for it."""
    directory, seen = fresh(tmp_path / "stopped", workloads), 0

    def after_the_second() -> bool:
        nonlocal seen
        seen += 1
        return seen > 1

    outcome = evolve(directory, LocalWorkers(1), stop=after_the_second)
    assert (outcome.generations, outcome.start.number) == (1, 0)
    assert outcome.best.number in (0, 2)
    assert outcome.validation == max(outcome.start.validation or 0.0, outcome.best.validation or 0.0)


def test_two_processes_do_not_share_an_evolution(workloads: Workloads, tmp_path: Path) -> None:
    directory = fresh(tmp_path / "shared", workloads)
    with alone_in(directory.path), pytest.raises(InputError, match="another process is training there"):
        evolve(directory, LocalWorkers(1))
    assert not (directory.path / "generations.jsonl").exists()


def test_processes_find_the_same(workloads: Workloads, whole: tuple[Path, Recorder], tmp_path: Path) -> None:
    with LocalWorkers(2) as workers:
        evolve(fresh(tmp_path / "two", workloads), workers)
    assert files(tmp_path / "two") == files(whole[0])


def test_another_seed_finds_something_else(workloads: Workloads, whole: tuple[Path, Recorder], tmp_path: Path) -> None:
    evolve(fresh(tmp_path / "other", workloads, replace(SETTINGS, seed=1)), LocalWorkers(1))
    assert files(tmp_path / "other")["generations.jsonl"] != files(whole[0])["generations.jsonl"]


def test_the_start_can_be_a_checkpoint(whole: tuple[Path, Recorder]) -> None:
    assert np.isfinite(start_parameters(str(whole[0] / "best"), "packing")).all()
    with pytest.raises(InputError, match="does not price leftovers"):
        start_parameters("fgd", "packing")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"number": 7, "values": [], "spread": 1, "shares": []}\n', "generation 0"),
        (b'{"number": 0, "values": ["x"], "spread": 1, "shares": []}\n', "a number"),
        (b"nonsense\n", "not JSON"),
    ],
)
def test_a_spoilt_history_is_refused(workloads: Workloads, tmp_path: Path, line: bytes, reason: str) -> None:
    directory = fresh(tmp_path / "spoilt", workloads)
    (tmp_path / "spoilt" / "generations.jsonl").write_bytes(line)
    with pytest.raises(InputError, match=reason):
        directory.past()


@pytest.mark.parametrize("part", ["values", "shares"])
def test_a_history_of_another_search_is_refused(whole: tuple[Path, Recorder], tmp_path: Path, part: str) -> None:
    shutil.copytree(whole[0], tmp_path / "other")
    file = tmp_path / "other" / "generations.jsonl"
    first, *rest = file.read_text().splitlines()
    shorter = json.loads(first) | {part: []}
    file.write_text("\n".join([json.dumps(shorter), *rest]) + "\n")
    with pytest.raises(InputError, match="generation 0 was written down with"):
        evolve(EvolutionDirectory.existing(tmp_path / "other"), LocalWorkers(1))


def test_a_run_of_another_agent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(settings_text("dqn", default_settings("dqn")))
    with pytest.raises(InputError, match="expected the directory of an evolution"):
        EvolutionDirectory.existing(tmp_path)


def test_a_changed_trace_is_refused(workloads: Workloads, tmp_path: Path) -> None:
    fresh(tmp_path / "changed", workloads)
    file = tmp_path / "changed" / "settings.json"
    file.write_text(file.read_text().replace('"digest": "', '"digest": "0'))
    with pytest.raises(InputError, match="changed since"):
        EvolutionDirectory.existing(tmp_path / "changed")


def test_nothing_to_train_on_is_refused() -> None:
    with pytest.raises(InputError, match="no workload"):
        Workloads((), (), {})
    with pytest.raises(InputError, match="no GPU"):
        [*prepared_workloads([TraceSource(name="balance-3")], 0, SETTINGS)]


@pytest.mark.parametrize(
    ("words", "method"),
    [
        (["--trace", "varied-10023"], "slope"),
        (["--trace", "varied-10023", "--start", "prior"], "coordinates"),
        (["--trace", "balance-3", "--objective", "balance", "--load", "0"], "coordinates"),
        (["--trace", "varied-10023", "--start", "prior", "--method", "cma"], "cma"),
    ],
)
def test_the_usual_method_depends_on_what_it_begins_with(tmp_path: Path, words: list[str], method: str) -> None:
    few = [
        "--generations",
        "1",
        "--population",
        "6",
        "--runs",
        "1",
        "--jobs",
        "1",
        "--out",
        str(tmp_path),
        "--name",
        "few",
    ]
    done = CliRunner().invoke(app, ["train", "evolution", *words, *few], catch_exceptions=False)
    assert done.exit_code == 0
    written = json.loads((tmp_path / "few" / "settings.json").read_text())
    assert written["settings"]["method"] == method
    assert ("steps" in written) == (method == "slope")
