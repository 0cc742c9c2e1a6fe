"""Another policy without losing a request."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pytest

from pilotage.kube.cache import ClusterCache
from pilotage.kube.podview import PodView
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import PodShape
from pilotage.policies.api import WorkloadMix
from pilotage.policies.registry import find_policy
from pilotage.serving import run
from pilotage.serving.offered import Offered
from pilotage.serving.run import Settings
from pilotage.serving.scoring import Scoring
from pilotage.serving.warming import warmed
from serving.services import a_question, a_service, a_state, ask, post, read, reload

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
                assert await asyncio.to_thread(reload, serving)
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
        assert not reload(serving)
        status, answer = asyncio.run(post(f"http://127.0.0.1:{serving.port}/v1/score", asked))
    assert (status, answer["policy"]) == (200, "mine@1")


def test_of_two_reloads_close_together_the_later_reading_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first takes longer to get ready: it ended last, with what had been on disk before, under the same edition."""
    path, began, may_end = tmp_path / "mine.py", threading.Event(), threading.Event()
    path.write_text(POLICY.format(version=1, sign=1))

    def waiting(offered: Offered, mix: WorkloadMix | None) -> Offered:
        if offered.names == ["mine@2"]:
            began.set()
            assert may_end.wait(60)
        return warmed(offered, mix)

    with a_service(Settings(policies=(f"{path}:Mine",), port=0)) as serving, ThreadPoolExecutor() as threads:
        monkeypatch.setattr(run, "warmed", waiting)
        path.write_text(POLICY.format(version=2, sign=1))
        first = threads.submit(reload, serving)
        assert began.wait(60)
        path.write_text(POLICY.format(version=3, sign=1))
        second = threads.submit(reload, serving)
        wait([second], 1.0)  # it is through, unless it waits for the first
        may_end.set()
        assert first.result(60)
        assert second.result(60)
        assert (serving.offered.names, serving.offered.edition) == (["mine@3"], 2)


SLOW = """
import time
from pilotage.policies.api import FeatureSchema

class Slow:
    name = "slow@1"
    features = FeatureSchema(node=("cpu_free",))
    scope = "node"
    normalise = "none"
    takes_long = True
    def __init__(self, sign=1):
        self.sign = sign
    def prepare(self, mix):
        if sum(mix.cluster.nodes_D) > 2:  # not the small cluster of the start
            time.sleep(3)
        return Ready(self.sign)
    def score(self, batch, out_BN, device_BN):
        out_BN[:] = batch.node("cpu_free")

class Ready(Slow):
    def prepare(self, mix):
        return Ready(self.sign)
"""


def test_a_policy_that_rehearses_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    asked = a_question([{"name": name, "state": a_state(used=1000 * n)} for n, name in enumerate("abc")], session="new")
    with a_service(Settings(policies=(f"{path}:Slow",), port=0)) as serving:
        began = time.monotonic()
        assert ask(serving, "/v1/score", asked)[1]["scores"]["a"] == 100
        assert ask(serving, "/v1/score", {**asked, "session": "another"})[0] == 200
        assert read(serving, "/healthz")[0] == 200
        assert time.monotonic() - began < 2.5  # one rehearsal takes longer, and there are two


def test_policies_that_share_a_name_are_refused(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}.py").write_text(POLICY.format(version=1, sign=3 - 2 * number))
    with pytest.raises(InputError, match=r"1\.py:Mine and .*2\.py:Mine are both called mine@1"):
        Offered.read([f"{tmp_path / '1.py'}:Mine", f"{tmp_path / '2.py'}:Mine"])


def test_scores_of_one_policy_are_not_taken_for_those_of_another(tmp_path: Path) -> None:
    """Also where nothing but the operator's own name for them tells them apart."""
    found = {}
    for number in (1, 2):
        (tmp_path / f"{number}.py").write_text(POLICY.format(version=1, sign=3 - 2 * number))
        found[str(number)] = find_policy(f"{tmp_path / f'{number}.py'}:Mine")
    cache = ClusterCache()
    cache.set_nodes([Node("a", 4000, 2**33), Node("b", 8000, 2**33)])
    scoring, pod = Scoring(cache, lambda: Offered(found)), PodView("u", "default", "p", PodShape(1000, 2**30))
    totals = [scoring.verdict(pod, name).of(np.arange(2)).argmax() for name in ("1", "2", "1")]
    assert totals == [1, 0, 1]


def test_a_port_that_is_taken_is_an_error_of_the_user() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}"), a_service(Settings(port=port)):
            pass
