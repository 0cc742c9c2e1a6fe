"""Another policy without losing a request."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pilotage.serving.run import Settings
from serving.services import a_question, a_service, a_state, post

POLICY = """
from pilotage.policies.api import FeatureSchema

class Mine:
    name = "mine@{version}"
    features = FeatureSchema(node=("cpu_free",))
    scope = "node"
    normalise = "none"
    def prepare(self, mix):
        return self
    def score(self, batch, out_BN, device_BN):
        out_BN[:] = {sign} * batch.node("cpu_free")
"""


def test_requests_are_answered_while_policies_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(POLICY.format(version=1, sign=1))
    asked = a_question([{"name": "a", "state": a_state(used=1000)}, {"name": "b", "state": a_state(used=2000)}])

    with a_service(Settings(policies=(f"{path}:Mine",), port=0)) as serving:
        url = f"http://127.0.0.1:{serving.port}/v1/score"

        async def run() -> list[tuple[int, dict[str, object]]]:
            answers = []
            for round_ in range(3):
                path.write_text(POLICY.format(version=round_ + 2, sign=(-1) ** (round_ + 1)))
                waiting = [asyncio.create_task(post(url, asked)) for _ in range(5)]
                assert await asyncio.to_thread(lambda: asyncio.run(serving.reload()))
                waiting += [asyncio.create_task(post(url, asked)) for _ in range(5)]
                answers += await asyncio.gather(*waiting)
            return answers

        answers = asyncio.run(run())
    assert {status for status, _ in answers} == {200}
    assert answers[-1][1] == {"apiVersion": "v1", "uid": "uid-web", "policy": "mine@4", "scores": {"a": 0, "b": 100}}


def test_a_policy_that_cannot_be_read_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(POLICY.format(version=1, sign=1))
    asked = a_question([{"name": "a", "state": a_state()}])
    with a_service(Settings(policies=(f"{path}:Mine",), port=0)) as serving:
        path.write_text("this is no Python")
        assert not asyncio.run(serving.reload())
        status, answer = asyncio.run(post(f"http://127.0.0.1:{serving.port}/v1/score", asked))
    assert (status, answer["policy"]) == (200, "mine@1")
