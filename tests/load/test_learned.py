"""A learned policy of the kind trained on Load-v1 sees what is measured, and its choice is what the service answers."""

from __future__ import annotations

from pathlib import Path

from pilotage.load.settings import LoadSettings
from pilotage.policies.checkpoints import write_checkpoint
from pilotage.serving.run import Settings
from reference.random_weights import MLP, random_checkpoint
from serving.services import a_question, a_service, a_state, ask


def test_measured_load_decides_between_nodes_that_are_equal_otherwise(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "learned", random_checkpoint(MLP))
    # Nobody answers there: the measurements are those of the test.
    load = LoadSettings("http://127.0.0.1:9", {"cpu": "up"}, interval_seconds=3600, stale_seconds=3600)
    asked = a_question([{"name": name, "state": a_state()} for name in ("a", "b")])
    with a_service(Settings(policies=(str(tmp_path / "learned"),), port=0, load=load)) as serving:
        assert serving.columns is not None
        answers = []
        for loads in ({"a": 0.1, "b": 0.9}, {"a": 0.9, "b": 0.1}, {"a": 0.5, "b": 0.5}):
            serving.columns.take("cpu", loads, age=0.0)
            answers.append(ask(serving, "/v1/score", asked)[1]["scores"])
    assert sorted(answers[0].values()) == [0, 100]
    assert answers[1] == {"a": answers[0]["b"], "b": answers[0]["a"]}
    assert answers[2] == {"a": 0, "b": 0}  # nothing to tell them apart
