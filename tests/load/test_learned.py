"""A policy that learned in Load-v1 sees what is measured and avoids it; its choice is what the service answers.

That it decides where a real kube-scheduler puts pods is in test_placements.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pilotage.load.settings import LoadSettings
from pilotage.policies.checkpoints import write_checkpoint
from pilotage.serving.run import Serving, Settings
from reference.random_weights import MLP, random_checkpoint
from serving.services import a_question, a_service, a_state, ask

NODES = tuple("abcde")
CLUSTERS, UNTRAINED = 30, 8


def a_loaded_service(*policies: Path) -> Settings:
    """Nobody answers where it would ask: the measurements are those of the test."""
    load = LoadSettings("http://127.0.0.1:9", {"cpu": "up"}, interval_seconds=3600, stale_seconds=3600)
    return Settings(policies=tuple(str(path) for path in policies), port=0, load=load)


def chosen(serving: Serving, policy: str, loads: dict[str, float], used: dict[str, int]) -> str:
    """The node with the highest score."""
    assert serving.columns is not None
    serving.columns.take("cpu", loads, age=0.0)
    candidates = [{"name": name, "state": a_state(used=used[name])} for name in loads]
    status, answer = ask(serving, "/v1/score", a_question(candidates, policy=policy))
    assert status == 200, answer
    scores: dict[str, int] = answer["scores"]
    return max(scores, key=scores.__getitem__)


def test_it_avoids_load_and_weights_that_learned_nothing_do_not(trained: Path, tmp_path: Path) -> None:
    """On drawn clusters: the load of the node that is chosen, first where nodes are equal otherwise, then not."""
    untrained = [tmp_path / f"random-{seed}" for seed in range(UNTRAINED)]
    for seed, path in enumerate(untrained):
        write_checkpoint(path, random_checkpoint(MLP, seed, f"random-{seed}@1"))
    draw = np.random.default_rng(1)
    clusters = [
        (dict(zip(NODES, draw.uniform(0.0, 0.9, 5).tolist(), strict=True)), used)
        for equal in (True, False)
        for used in (
            dict(zip(NODES, ([1000] * 5) if equal else draw.integers(0, 5000, 5).tolist(), strict=True))
            for _ in range(CLUSTERS)
        )
    ]
    with a_service(a_loaded_service(trained, *untrained)) as serving:
        taken = {
            name: [chosen(serving, name, loads, used) for loads, used in clusters] for name in serving.offered.names
        }
    learned, *others = (
        np.array([loads[node] for node, (loads, _) in zip(nodes, clusters, strict=True)]) for nodes in taken.values()
    )
    least = np.array([min(loads.values()) for loads, _ in clusters])
    assert np.array_equal(learned[:CLUSTERS], least[:CLUSTERS])
    assert np.mean([np.mean(other[:CLUSTERS] == least[:CLUSTERS]) for other in others]) < 0.75
    assert learned[CLUSTERS:].mean() < 0.6 * np.mean([other[CLUSTERS:].mean() for other in others])


def test_measured_load_decides_between_nodes_that_are_equal_otherwise(trained: Path) -> None:
    asked = a_question([{"name": name, "state": a_state()} for name in ("a", "b")])
    with a_service(a_loaded_service(trained)) as serving:
        assert serving.columns is not None
        answers = []
        for loads in ({"a": 0.1, "b": 0.9}, {"a": 0.9, "b": 0.1}, {"a": 0.5, "b": 0.5}):
            serving.columns.take("cpu", loads, age=0.0)
            answers.append(ask(serving, "/v1/score", asked)[1]["scores"])
    assert answers == [
        {"a": 100, "b": 0},
        {"a": 0, "b": 100},
        {"a": 0, "b": 0},
    ]  # of the last, nothing tells them apart
