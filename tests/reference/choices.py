"""From scores to one node, the slow way: score every candidate, normalise, weigh, take the first of the highest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pilotage.model.workload import PodShape
from reference.fragmentation import TypicalPod
from reference.machines import WHOLE, Machine
from reference.scores import DEVICE_RULE, NORMALISED, RULES, fgd, normalised, pick_devices, random_unit


@dataclass(frozen=True)
class SlowPolicy:
    """A weighted sum of rules."""

    names: tuple[str, ...]
    typical: Sequence[TypicalPod]
    weights: tuple[float, ...] = (1.0,)
    normalise: tuple[bool, ...] | None = None  # None: as each rule is published
    device_rule: str | None = None

    def choose(self, machines: Sequence[Machine], pod: PodShape, draw: float) -> Machine | None:
        candidates = [machine for machine in machines if machine.fits(pod)]
        if not candidates:
            return None
        totals = [0.0] * len(candidates)
        for k, name in enumerate(self.names):
            raw = [RULES[name](pod, machine.view(), self.typical, draw) for machine in candidates]
            wanted = name in NORMALISED if self.normalise is None else self.normalise[k]
            for i, value in enumerate(normalised(raw) if wanted else raw):
                totals[i] += self.weights[k] * value
        highest = max(totals)
        winners = [machine for machine, total in zip(candidates, totals, strict=True) if total == highest]
        return min(winners, key=lambda machine: machine.rank)

    def devices(self, machine: Machine, pod: PodShape, draw: float) -> tuple[int, ...]:
        """By FGD where it weighs most, else by the device rule."""
        heaviest = self.names[max(range(len(self.names)), key=lambda k: self.weights[k])]
        if heaviest == "fgd@1" and pod.gpu_count == 1 and pod.gpu_milli < WHOLE:
            device = fgd(pod, machine.view(), self.typical)[1]
            assert device is not None
            return (device,)
        rule = self.device_rule or DEVICE_RULE[heaviest]
        return pick_devices(pod, machine.lefts(), rule, random_unit(int(draw * 2**48), -1))


def mask(devices: Sequence[int]) -> int:
    return sum(2**d for d in devices)
