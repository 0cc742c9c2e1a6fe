"""A whole run in compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pilotage.kernels.choosing import Rules, choose_node
from pilotage.kernels.compiling import inlined_inner, kernel
from pilotage.kernels.devices import BEST_PRICED, LEAST_FRAGMENTED, choose_devices
from pilotage.kernels.events import decide, next_decision
from pilotage.kernels.feasibility import narrowing_reason
from pilotage.kernels.features import DRAW_STEPS, POD_DRAW, random_unit
from pilotage.kernels.meters import METERS, settle
from pilotage.kernels.neighbours import look_around
from pilotage.kernels.prices import priced_share_device
from pilotage.kernels.scene import SEQUENCE, Scene
from pilotage.kernels.scoring import fgd_best_device
from pilotage.model.workload import FloatArray, IntArray


class Tape(NamedTuple):
    """The meters after each pod's decision, and the GPU milli that had arrived by then.

    For runs without retries, where every pod is decided once; empty for other runs.
    """

    meter_PM: FloatArray
    arrived_P: IntArray
    reason_P: IntArray  # why a pod was not placed (kernels.feasibility.narrowing_reason), any kind of run


def empty_tape(pods: int, reasons: int) -> Tape:
    """Room for `pods` decisions and `reasons` pods; 0 where that is not wanted."""
    return Tape(np.zeros((pods, len(METERS))), np.zeros(pods, np.int64), np.zeros(reasons, np.int64))


@inlined_inner
def carry_out(scene: Scene, tape: Tape, pod: int, node: int, devices: int) -> None:
    """Decision and record. The reason is found first: a gang that does not fit is taken back by the decision."""
    if node < 0 and tape.reason_P.shape[0] > 0:
        tape.reason_P[pod] = narrowing_reason(scene.cluster, scene.shapes, scene.timeline.shape_P[pod])
    decide(scene, pod, node, devices)
    record(scene, tape, pod)


@inlined_inner
def record(scene: Scene, tape: Tape, pod: int) -> None:
    """Writes down the state after the decision about `pod`, which every pod before it had already."""
    if tape.arrived_P.shape[0] == 0:
        return
    s = scene.timeline.shape_P[pod]
    before = tape.arrived_P[pod - 1] if pod > 0 else 0
    tape.arrived_P[pod] = before + scene.shapes.gpu_milli_S[s] * scene.shapes.gpu_count_S[s]
    settle(scene.meters)
    for m in range(tape.meter_PM.shape[1]):
        tape.meter_PM[pod, m] = scene.meters.total_M[m]


@kernel
def run_episode(scene: Scene, rules: Rules, device_rule: int, seed: int, tape: Tape, stop_at: int) -> int:
    """Decides pod after pod. Returns the pod `stop_at` when it comes up for its decision, else -1 at the end."""
    while True:
        pod = next_decision(scene)
        if pod >= 0 and scene.neighbours.wanted:
            look_around(scene, pod)
        if pod < 0 or pod == stop_at:
            return pod
        s = scene.timeline.shape_P[pod]
        draw = random_unit(seed, scene.progress.counter_X[SEQUENCE])
        scene.shapes.pod_SF[s, POD_DRAW] = draw
        node = choose_node(scene.cluster, scene.shapes, s, scene.node_NF, rules, scene.cache)
        devices = 0
        if node >= 0:
            devices = devices_on(scene, rules, device_rule, s, node, draw)
        carry_out(scene, tape, pod, node, devices)


@kernel
def step(scene: Scene, tape: Tape, pod: int, node: int, devices: int) -> int:
    """For deciders in Python: carries out their decision about `pod` (-1 at first), returns the next pod to decide."""
    if pod >= 0:
        carry_out(scene, tape, pod, node, devices)
    pod = next_decision(scene)
    if pod >= 0 and scene.neighbours.wanted:
        look_around(scene, pod)
    return pod


@inlined_inner
def devices_on(scene: Scene, rules: Rules, device_rule: int, s: int, node: int, draw: float) -> int:
    """The devices for shape s: those it must get, else by the device rule."""
    cluster, shapes = scene.cluster, scene.shapes
    if shapes.devices_S[s] > 0:
        return shapes.devices_S[s]
    shares = shapes.gpu_count_S[s] == 1 and shapes.gpu_milli_S[s] < 1000
    if device_rule == BEST_PRICED and shares:
        return 1 << priced_share_device(rules.prices, shapes.pod_SF, s, scene.node_NF, node, cluster.device_left_ND)
    if device_rule == LEAST_FRAGMENTED and shares:
        return 1 << fgd_best_device(rules.typical, shapes.pod_SF, s, scene.node_NF, node, cluster.device_left_ND)[1]
    return choose_devices(
        cluster.device_left_ND[node],
        cluster.device_count_N[node],
        shapes.gpu_milli_S[s],
        shapes.gpu_count_S[s],
        device_rule,
        random_unit(int(draw * DRAW_STEPS), -1),
    )
