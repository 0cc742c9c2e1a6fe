"""Nothing is compiled in front of a caller, and the service does not stand still to tidy up."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

from conftest import ROOT
from pilotage.serving.warming import settle

ASKED_AFTER_WARMING = """
import sys
import msgspec
from pilotage.kube.cache import ClusterCache
from pilotage.model.clock import SystemClock
from pilotage.serving.callers import Sessions
from pilotage.serving.offered import Offered
from pilotage.serving.scoring import Scoring
from pilotage.serving.v1 import Api
from pilotage.serving.warming import warmed
from pilotage.serving.wire import ScoreRequest, SuggestRequest
from serving.services import a_question, a_state

def compiled():
    return {
        (module, name, str(one))
        for module, found in list(sys.modules.items()) if module.startswith("pilotage.")
        for name, kernel in vars(found).items()
        for one in getattr(kernel, "signatures", ())
    }

offered = warmed(Offered.read(("fgd", "least-allocated")))
before = compiled()
assert before
asked = a_question([{"name": name, "generation": 1, "state": a_state(used=1000)} for name in ("a", "b")], session="one")
api = Api(Sessions(lambda addresses: Scoring(ClusterCache(), lambda: offered), SystemClock()))
api.score(msgspec.convert(asked, ScoreRequest))
api.suggest(msgspec.convert(asked, SuggestRequest))
print(*sorted(compiled() - before), sep="\\n")
"""


def test_the_first_caller_waits_for_no_compiler() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-c", ASKED_AFTER_WARMING]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ended.stdout.strip(), ended.returncode) == ("", 0), ended.stderr


def test_what_is_there_when_it_is_warm_is_not_looked_through_again() -> None:
    before = len(gc.get_objects())
    try:
        settle()
        assert len(gc.get_objects()) < before / 100
    finally:
        gc.unfreeze()
