"""Which devices of the chosen node a pod gets."""

from __future__ import annotations

from pilotage.kernels.compiling import kernel
from pilotage.model.workload import IntArray

BEST, WORST, RANDOM, LEAST_FRAGMENTED, BEST_PRICED = range(5)
DEVICE_RULES = ("best", "worst", "random", "fgd", "priced")
PLAIN_RULES = DEVICE_RULES[:3]  # the others need tables that only compiled policies have


@kernel
def fullest_devices(left_D: IntArray, count: int, milli: int, wanted: int) -> int:
    """Bit mask of the `wanted` devices with the least but enough left, low indices first."""
    mask = 0
    for _ in range(wanted):
        chosen = -1
        for d in range(count):
            if left_D[d] >= milli and not (mask >> d) & 1 and (chosen < 0 or left_D[d] < left_D[chosen]):
                chosen = d
        if chosen >= 0:
            mask |= 1 << chosen
    return mask


@kernel
def choose_devices(left_D: IntArray, count: int, gpu_milli: int, gpu_count: int, rule: int, draw: float) -> int:
    """Bit mask of the devices for a pod that fits on a node with `count` devices.

    Whole devices: the lowest idle ones, whatever the rule. A share: the fullest (best) or emptiest (worst) device
    with room, the lowest index among equals, or one drawn uniformly. Several shares: the fullest devices with room.
    """
    if gpu_count == 0:
        return 0
    if gpu_milli >= 1000 or gpu_count > 1:
        return fullest_devices(left_D, count, gpu_milli, gpu_count)
    chosen, candidates = -1, 0
    for d in range(count):
        if left_D[d] < gpu_milli:
            continue
        candidates += 1
        if (
            chosen < 0
            or (rule == BEST and left_D[d] < left_D[chosen])
            or (rule == WORST and left_D[d] > left_D[chosen])
        ):
            chosen = d
    if rule == RANDOM:
        wanted = int(draw * candidates)
        for d in range(count):
            if left_D[d] >= gpu_milli:
                if wanted == 0:
                    return 1 << d
                wanted -= 1
    return 1 << chosen
