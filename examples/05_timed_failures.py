"""A run over time in which nodes fail: pods come and go, wait, and start again elsewhere.

python examples/05_timed_failures.py
"""

from __future__ import annotations

from pilotage.policies.registry import find_policy
from pilotage.sim.protocols import Timing, run_timed
from pilotage.workloads.generate import openb_like_nodes, openb_like_pods
from pilotage.workloads.trace import Trace


def main() -> None:
    trace = Trace.of("small", openb_like_nodes(0.05), openb_like_pods(400, seed=7))
    print(f"{'MTBF':>6} {'GPU allocated %':>16} {'mean wait s':>12} {'restarts':>9}")
    for hours in (None, 24.0, 6.0):
        timing = Timing(load=0.9, arrivals=3000, mtbf_hours=hours, mttr_hours=0.5)
        result = run_timed(trace, find_policy("fgd"), seed=42, timing=timing)
        shown = "never" if hours is None else f"{hours:g} h"
        print(f"{shown:>6} {result.gpu_allocation_percent:16.2f} {result.mean_wait:12.1f} {result.restarts:9d}")


if __name__ == "__main__":
    main()
