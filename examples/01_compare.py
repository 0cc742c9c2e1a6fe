"""Compare two policies from Python, on a small generated trace that is written to files and read back.

python examples/01_compare.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pilotage.sim.compare import Comparison, compare
from pilotage.sim.specs import TraceSource
from pilotage.workloads.generate import openb_like_nodes, openb_like_pods
from pilotage.workloads.trace import Trace, write_trace


def main() -> None:
    trace = Trace.of("small", openb_like_nodes(0.05), openb_like_pods(400, seed=7))
    with tempfile.TemporaryDirectory() as directory:
        nodes, pods = write_trace(trace, Path(directory), "openb")
        comparison = Comparison(sources=(TraceSource(nodes, pods),), policies=("fgd", "best-fit"), seeds=(42, 43, 44))
        outcome = compare(comparison)
    for row in outcome.summary:
        if row.metric in ("gpu_allocation_percent", "failed_pods"):
            print(f"{row.policy:12} {row.metric:24} {row.mean:8.2f}  against {row.baseline}: {row.difference:+.2f}")


if __name__ == "__main__":
    main()
