"""Stops a run at one pod's decision and explains it."""

from __future__ import annotations

import numpy as np

from pilotage.kernels.feasibility import obstacles
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.policies.explain import Explanation, count_reasons, rank_candidates, request_text, verdict
from pilotage.sim.run import Run


def explain_pod(run: Run, name: str) -> Explanation:
    """The first decision about the pod. The run must not have passed it; it stops there."""
    try:
        pod = list(run.workload.names).index(name)
    except ValueError:
        raise UnknownNameError("pod", name, list(run.workload.names)) from None
    if run.advance(stop_at=pod) != pod:
        raise InputError(f"pod {name!r} never came up for a decision of its own: another of its shape waited before it")
    scene, state = run.scene, run.state
    s = int(run.workload.shape_P[pod])
    node, devices = run.interpreter.decision(pod)
    obstacle_N = np.zeros(len(state.nodes), np.int64)
    obstacles(scene.cluster, scene.shapes, s, obstacle_N)
    batch = run.interpreter.batch(s, np.arange(len(state.nodes)))
    names = tuple(n.name for n in state.nodes)
    candidates = rank_candidates(run.policy, batch, names, np.arange(len(names)))
    return Explanation(
        pod=name,
        request=request_text(run.workload.shapes[s]),
        policy=run.policy.name,
        time=float(scene.progress.now_1[0]),
        filtered=count_reasons(obstacle_N, state.resources),
        candidates=candidates,
        node=names[node] if node >= 0 else None,
        devices=tuple(d for d in range(devices.bit_length()) if (devices >> d) & 1),
        verdict=verdict(candidates, len(names)) + _gang_note(run, pod),
    )


def _gang_note(run: Run, pod: int) -> str:
    g = int(run.scene.timeline.gang_P[pod])
    if g < 0 or not run.scene.timeline.whole_gangs:
        return ""
    gang = run.workload.gangs[g]
    return f"; as one of the {gang.size} pods of gang {gang.name}, it keeps a node only if all of them get one"
