"""Train MaskablePPO of sb3-contrib on the balance environment for a short time and compare it with chance.

python examples/08_maskable_ppo.py
"""

from __future__ import annotations

import gymnasium
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.vec_env import DummyVecEnv

import pilotage.envs  # noqa: F401  (registers the environments)
from pilotage.envs.reference import play, random_choice
from pilotage.envs.settings import EnvSettings
from pilotage.kernels.env_state import FIGURES

VARIANCE = FIGURES.index("cpu_variance")
TEST_SEEDS = range(10)


def mean_variance(agent: MaskablePPO) -> float:
    """Variance of CPU use at the end of an episode, over seeds that were not trained on."""
    env = gymnasium.make("pilotage/Balance-v1")
    total = 0.0
    for seed in TEST_SEEDS:
        observation, info = env.reset(seed=seed)
        over = False
        while not over:
            action, _ = agent.predict(observation, action_masks=get_action_masks(env), deterministic=True)
            observation, _, over, _, info = env.step(action)
        total += info["figures"]["cpu_variance"]
    return total / len(TEST_SEEDS)


def main() -> None:
    torch.set_num_threads(1)
    envs = DummyVecEnv([lambda: gymnasium.make("pilotage/Balance-v1") for _ in range(8)])
    agent = MaskablePPO(
        "MultiInputPolicy",
        envs,
        n_steps=150,
        batch_size=300,
        gamma=0.0,  # what a placement does to the balance shows at once
        gae_lambda=0.0,
        learning_rate=1e-3,
        seed=10_000,
    )
    agent.learn(12_000)
    chance = play(EnvSettings.of("balance"), TEST_SEEDS, random_choice(0))[:, VARIANCE].mean()
    trained = mean_variance(agent)
    print(f"random placement: variance of CPU use {chance:.4f}")
    print("MaskablePPO: below half of that" if trained < chance / 2 else f"MaskablePPO: {trained:.4f}")


if __name__ == "__main__":
    main()
