"""The learned window controller: its environment, its training, its checkpoint, and what it is refused for."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pilotage.envs import GANG_ID
from pilotage.envs.gang import GangEnv
from pilotage.gang.job import Outlook
from pilotage.gang.sample_job import sample_job
from pilotage.gang.scenario_mpc import ScenarioMpc
from pilotage.gang.strategies import Comparison, controller_by_name
from pilotage.gang.training_ground import Ground, training_ground
from pilotage.gang.window_policy import LearnedWindows, architecture, course_of, moment_for, network_from
from pilotage.kernels.gang_windows import INPUTS, run_learned
from pilotage.model.errors import InputError
from pilotage.policies.architectures import WINDOW_INPUTS
from pilotage.policies.checkpoints import read_checkpoint, write_checkpoint
from pilotage.policies.registry import find_policy
from pilotage.training.gang_windows import WindowTraining, checkpoint_of, plan_alone, train_windows

QUICK = WindowTraining(generations=4, population=6, episodes=2, shortest=40, longest=60, validate_every=2)


@pytest.fixture(scope="module")
def ground() -> Ground:
    return training_ground(sample_job(), 2, 0)


def test_the_environment_is_clean() -> None:
    check_env(gymnasium.make(GANG_ID).unwrapped, skip_render_check=True)
    assert INPUTS == WINDOW_INPUTS


def test_rewards_add_up_to_the_time_of_the_compiled_run(ground: Ground) -> None:
    env = GangEnv(ground=ground, length=40)
    network = network_from(plan_alone())
    seen, _ = env.reset(seed=5)
    episode = env.episode
    assert episode is not None
    known = ground.stretches[episode.stretch]
    action_T = np.zeros(episode.length, np.int64)
    total = run_learned(known, episode.first, episode.length, episode.penalty, network, moment_for(known), action_T)
    spent, over = 0.0, False
    for action in action_T:
        assert not over
        assert seen[:, 0].min() == 0.0  # the plan's best
        seen, reward, over, _, info = env.step(action)
        assert reward <= 1e-9  # nothing is faster than the exact division
        spent += info["seconds"] + (episode.penalty if info["divided"] else 0.0)
    assert over
    assert spent - episode.penalty == pytest.approx(total)  # the first division costs nothing
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.int64(0))


def test_penalty_and_steps_left_are_seen(ground: Ground) -> None:
    env = GangEnv(ground=ground, length=30)
    seen, info = env.reset(seed=1)
    other, more = env.reset(seed=2)
    assert (seen[0, 6] < other[0, 6]) == (info["penalty"] < more["penalty"])
    for _ in range(25):
        other, *_ = env.step(np.int64(0))
    assert (other[:, 7] == np.float32(0.5)).all()


def test_training_rows_end_before_the_first_superstep() -> None:
    job = sample_job()
    outlook = job.outlook(400)
    changed = replace(
        outlook.sizes,
        actual_THJ=np.where(
            np.arange(len(outlook.sizes.actual_THJ))[:, None, None] >= outlook.before, 10.0, outlook.sizes.actual_THJ
        ),
        forecast_THJ=np.where(
            np.arange(len(outlook.sizes.actual_THJ))[:, None, None] >= outlook.before, 10.0, outlook.sizes.forecast_THJ
        ),
    )
    one, other = (training_ground(job, 1, 0, seen) for seen in (outlook, Outlook(changed, outlook.before)))
    assert one.fingerprint == other.fingerprint
    assert (one.stretches[0].actual_TJC == other.stretches[0].actual_TJC).all()
    assert (one.stretches[0].estimate_TQ == other.stretches[0].estimate_TQ).all()


def test_validation_rows_are_never_drawn(ground: Ground) -> None:
    random = np.random.default_rng(0)
    drawn = [ground.draw(random, 10, 200) for _ in range(200)]
    held_out = ground.held_out()
    for n in range(len(ground.stretches)):
        last = max(one.first + one.length for one in drawn if one.stretch == n)
        own = [one for one in held_out if one.stretch == n]
        assert all(last <= one.first for one in own)
        assert {one.first + one.length for one in own} == {len(ground.stretches[n].actual_TJC)}
        assert len({one.penalty for one in own}) == 5


def test_something_is_learned_and_the_search_ends_by_itself() -> None:
    ground = training_ground(sample_job(), 3, 0)
    settings = WindowTraining(generations=60, episodes=12, shortest=60, longest=200, patience=3)
    done: list[int] = []
    learned = train_windows(ground, settings, lambda generation, total: done.append(generation))
    assert learned.validation > 0.0
    assert learned.generations % settings.validate_every == 0
    assert done[-1] == min(60, learned.generations + 15)


def test_without_a_network_the_plan_decides() -> None:
    job = sample_job()
    outlook = job.outlook()
    problem = job.problem(outlook, 0, 60)
    planner = ScenarioMpc()
    course = course_of(network_from(plan_alone()), problem, planner.outlooks(problem))
    by_plan = planner.run(problem)
    total = course.seconds_T.sum() + problem.penalty * course.divided_T[1:].sum()
    assert total == pytest.approx(by_plan.seconds_T.sum() + problem.penalty * by_plan.divided_T[1:].sum(), rel=0.02)
    assert (course.unit_TJ.sum(axis=1) == problem.units).all()


def test_a_training_is_repeatable_and_leaves_a_checkpoint_that_runs(ground: Ground, tmp_path: Path) -> None:
    learned, again = (train_windows(ground, QUICK) for _ in range(2))
    assert (learned.parameters == again.parameters).all()
    assert learned.validation >= 0.0  # else the plan alone is kept
    path = tmp_path / "window"
    write_checkpoint(path, checkpoint_of(learned, QUICK, "sample", ground.fingerprint))
    assert read_checkpoint(path).architecture == architecture()
    controller = controller_by_name(f"learned:{path}")
    job = sample_job(rows=40)
    runs = Comparison(job, (controller,), (0, 1)).runs(job.outlook())
    assert [run.seed for run in runs] == [0, 1]
    with pytest.raises(InputError, match="divides budgets of synchronous jobs; expected a policy that places pods"):
        find_policy(str(path))


def test_other_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        controller_by_name(f"learned:{tmp_path}")
    shipped = Path(sys.modules["pilotage.policies.priced"].__file__ or "").parent / "shipped"
    priced = next(shipped.glob("*/policy.json")).parent
    with pytest.raises(InputError, match="of kind 'prices'; expected one of kind 'window'"):
        controller_by_name(f"learned:{priced}")


def test_the_shipped_controller_runs() -> None:
    job = sample_job(rows=40)
    (run,) = Comparison(job, (LearnedWindows(),)).runs(job.outlook())
    assert run.strategy == "learned"
    assert run.redivisions < 39


def test_too_few_rows_to_learn_from_are_refused() -> None:
    with pytest.raises(InputError, match="values before the first superstep"):
        training_ground(sample_job(rows=100, values=130), 1, 0)


def test_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pilotage", "gang", "train", "examples/09_gang/job.yaml", "--generations", "2"]
    more = ["--mixtures", "1", "--seeds", "0-1", "--out", str(tmp_path / "out"), "--json"]
    done = subprocess.run(
        [*command, *more], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2], timeout=900
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["trainings"]
    assert [one["seed"] for one in found] == [0, 1]
    assert all((Path(one["checkpoint"]) / "weights.safetensors").exists() for one in found)
