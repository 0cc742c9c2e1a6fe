"""The kernels are also right as plain Python: a quick part of the tests again, with NUMBA_DISABLE_JIT=1.

There numpy's integers check what compiled code does silently: an index out of range, an overflow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
QUICK = [
    "kernels/test_scores_against_twins.py",
    "kernels/test_feasibility_and_devices.py",
    "kernels/test_neighbours.py",
    "kernels/test_dense.py",
    "kernels/test_inputs.py",
    "kernels/test_meters.py",
    "kernels/test_typical_pods.py",
    "kernels/test_go_random.py",
    "kernels/test_runs_against_twins.py",
    "kernels/test_environments_against_twin.py",
    "kernels/test_gang_against_twin.py",
    "kernels/test_gang_futures_against_twin.py",
    "kernels/test_gang_window_against_twin.py",
    "properties/test_invariants.py",
]


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="this is the run without compilation")
def test_kernels_as_plain_python_pass_their_quick_tests() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not data", *QUICK],
        cwd=TESTS,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=900,  # measured by coverage it takes several times as long
        check=False,
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
