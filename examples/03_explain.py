"""Why did this pod go there? Stops a run at one decision and prints what the chooser saw.

python examples/03_explain.py
"""

from __future__ import annotations

from pilotage.policies.registry import find_policy
from pilotage.sim.explaining import explain_pod
from pilotage.sim.protocols import openb_run
from pilotage.workloads.generate import openb_like_nodes, openb_like_pods
from pilotage.workloads.trace import Trace


def main() -> None:
    trace = Trace.of("small", openb_like_nodes(0.02), openb_like_pods(200, seed=7))
    run = openb_run(trace, find_policy("fgd"), seed=42, load=0)  # load 0: the trace as it is, only shuffled
    pod = run.workload.names[100]
    explanation = explain_pod(run, pod)
    print(f"{explanation.pod} asks for {explanation.request}")
    for reason, nodes in explanation.filtered.items():
        print(f"  {nodes} nodes filtered out: {reason}")
    for candidate in explanation.candidates[:3]:
        print(f"  {candidate.node}: total {candidate.total:g}, rank {candidate.rank}")
    print(explanation.verdict)
    print(f"devices: {explanation.devices}")


if __name__ == "__main__":
    main()
