"""The environments as Gymnasium and its users see them."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from pilotage.envs import IDS, register_environments
from pilotage.envs.single import ClusterEnv

CHANGES: list[dict[str, Any]] = [{}, {"nodes": (3, 9), "node_changes": 0.2}]


@pytest.mark.parametrize("name", IDS.values())
@pytest.mark.parametrize("changes", CHANGES)
def test_the_checker_of_gymnasium_finds_nothing(name: str, changes: dict[str, Any]) -> None:
    check_env(gymnasium.make(name, **changes).unwrapped)


@pytest.mark.parametrize("name", IDS.values())
@pytest.mark.parametrize("changes", CHANGES)
def test_whole_episodes_stay_within_the_spaces(name: str, changes: dict[str, Any]) -> None:
    env = gymnasium.make(name, **changes)
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        over, total = False, 0.0
        while not over:
            assert env.observation_space.contains(observation)
            assert (observation["mask"] == info["action_mask"]).all()
            action = env.action_space.sample(info["action_mask"])
            observation, reward, over, cut, info = env.step(action)
            total += float(reward)
            assert not cut
        assert env.observation_space.contains(observation)
        assert not observation["mask"].any()
        assert info["figures"]["return"] == pytest.approx(total, abs=1e-3)
        assert info["figures"]["seed"] == seed
        assert info["figures"]["refused"] == 0


def test_an_ended_episode_must_be_reset_and_the_next_one_follows() -> None:
    env = ClusterEnv("balance", nodes=(1, 1))
    env.reset(seed=3)
    while not env.step(np.int64(0))[2]:
        pass
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.int64(0))
    env.reset()
    assert env.vector.seed_B.tolist() == [4]
    env.step(np.int64(0))
    env.reset()  # in the middle: begins anew with the next seed
    assert env.vector.seed_B.tolist() == [5]


def test_without_a_seed_one_is_drawn_from_the_training_range() -> None:
    env = ClusterEnv("balance")
    env.reset()
    assert 10_000 <= env.vector.seed_B[0] < 900_000


def test_an_action_without_room_costs_the_penalty_and_the_pod() -> None:
    env = ClusterEnv("packing", nodes=(3, 30), penalty=2.5)
    observation, _ = env.reset(seed=1)
    wrong = int(np.flatnonzero(observation["mask"] == 0)[0])
    before = env.vector.cluster(0).free_NR.copy()
    _, reward, *_ = env.step(np.int64(wrong))
    assert reward == -2.5
    assert (env.vector.cluster(0).free_NR == before).all()
    assert env.vector.placements(0)[0][0] == -2
    assert not env.action_masks()[wrong]


@pytest.mark.parametrize("name", IDS.values())
def test_many_at_once_are_the_single_ones(name: str) -> None:
    many = gymnasium.make_vec(name, num_envs=3)
    singles = [gymnasium.make(name) for _ in range(3)]
    assert many.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    shown, _ = many.reset(seed=20)
    alone = [env.reset(seed=20 + b)[0] for b, env in enumerate(singles)]
    for _ in range(60):
        assert many.observation_space.contains(shown)
        for b, one in enumerate(alone):
            assert all((shown[key][b] == one[key]).all() for key in one)
        actions = shown["mask"].argmax(axis=1)
        shown, rewards, over, _, _ = many.step(actions)
        stepped = [env.step(action) for env, action in zip(singles, actions, strict=True)]
        alone = [one[0] for one in stepped]
        assert rewards.tolist() == [one[1] for one in stepped]
        assert not over.any()


def test_many_begin_with_a_reset() -> None:
    many = gymnasium.make_vec("pilotage/Balance-v1", num_envs=2, nodes=(2, 2))
    with pytest.raises(gymnasium.error.ResetNeeded):
        many.step(many.action_space.sample())


def test_the_end_of_an_episode_among_many() -> None:
    many = gymnasium.make_vec("pilotage/Balance-v1", num_envs=2, nodes=(2, 2))
    shown, _ = many.reset(seed=0)
    for _ in range(30):
        shown, _, over, _, info = many.step(shown["mask"].argmax(axis=1))
    assert over.all()
    assert info["_final_info"].all()
    assert info["final_info"]["figures"]["seed"].tolist() == [0, 1]
    assert not info["final_obs"]["mask"].any()
    assert shown["mask"].all()


def test_environments_are_sent_to_other_processes_and_registered_once() -> None:
    env = pickle.loads(pickle.dumps(ClusterEnv("load")))  # noqa: S301
    first, _ = env.reset(seed=4)
    again, _ = ClusterEnv("load").reset(seed=4)
    assert all((first[key] == again[key]).all() for key in first)
    before = dict(gymnasium.registry)
    register_environments()
    assert gymnasium.registry == before
