"""Why a pod went where it went: as an annotation written with the binding, as a line, or worked out afresh."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import orjson

from pilotage.kube.filters import allowed, by_rules
from pilotage.kube.podview import PodView
from pilotage.kube.undecided import undecided
from pilotage.model.errors import InputError
from pilotage.policies.deciding import View
from pilotage.policies.encode import encode_shapes
from pilotage.policies.explain import Explanation, rank_candidates, request_text, verdict
from pilotage.policies.journal import Decision
from pilotage.scheduler.cycle import Cycle
from pilotage.scheduler.reasons import count_reasons

Explain = Literal["annotation", "log", "off"]

ANNOTATION = "pilotage/decision"
MAX_ANNOTATION_BYTES = 64 * 1024  # of one that is read; ours have a few hundred
SHOWN = ("time", "instance", "policy", "node", "devices", "score", "best", "candidates", "nodes", "reasons", "why")


def annotation(decision: Decision) -> dict[str, str]:
    """To travel with the binding: the API server writes both at once, so it costs no request."""
    given = ((name, getattr(decision, name)) for name in (*SHOWN, "gang", "victims"))
    kept = {name: value for name, value in given if value not in ("", (), None)}
    return {ANNOTATION: orjson.dumps(kept).decode()}


def read_annotation(annotations: dict[str, str]) -> dict[str, Any] | None:
    """What was written when the pod was bound, None where nothing was. Anybody can write it: it is only shown."""
    text = annotations.get(ANNOTATION)
    if text is None:
        return None
    try:
        found = orjson.loads(text) if len(text) <= MAX_ANNOTATION_BYTES else None
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise InputError("not the JSON object that a binding of ours carries", field=f"annotation {ANNOTATION}")
    return found


def line(decision: Decision) -> str:
    """For a log."""
    where = f" -> {decision.node}" if decision.node else ""
    devices = f" devices {','.join(map(str, decision.devices))}" if decision.devices else ""
    return f"{decision.pod}{where}{devices} [{decision.result}, {decision.policy}]: {decision.why}"


def explain(cycle: Cycle, pod: PodView, time: float) -> Explanation:
    """What would be decided about the pod now, with every candidate. Nothing is placed."""
    cache, policy = cycle.cache, cycle.policies[pod.scheduler]
    cache.ask_for(pod.shape)
    cache.refresh()
    N = len(cache.state.nodes)
    view = View(cache.state.arrays, encode_shapes(cache.state, [pod.shape]), 0, cache.node_NF)
    taken = by_rules(pod, cache)
    batch = view.batch(np.arange(N))
    batch.feasible_BN[0] &= allowed(taken, N)
    problem = undecided(pod, cache)
    if problem:
        batch.feasible_BN[:] = False
    wish_N = cycle.wishes(pod, batch.feasible_BN[0])
    names = tuple(node.name for node in cache.state.nodes)
    ranked = rank_candidates(policy, batch, names, cache.rank_N, wish_N) if N else ()
    reasons = [(problem, N)] if problem else count_reasons(pod.shape, view, cache, taken) if N else ()
    return Explanation(
        pod=pod.key,
        request=request_text(pod.shape),
        policy=policy.name,
        time=time,
        filtered=dict(sorted(reasons, key=lambda entry: -entry[1])),
        candidates=ranked,
        node=ranked[0].node if ranked else None,
        devices=(),
        verdict=verdict(ranked, N),
    )
