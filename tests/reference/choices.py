"""From scores to one node, the slow way: score every candidate, normalise, weigh, take the first of the highest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pilotage.model.workload import PodShape
from reference.fragmentation import TypicalPod
from reference.machines import WHOLE, Machine, Mates, preset, rack_rooms
from reference.scores import DEVICE_RULE, NORMALISED, RULES, fgd, normalised, pick_devices, random_unit


@dataclass(frozen=True)
class SlowPolicy:
    """A weighted sum of rules."""

    names: tuple[str, ...]
    typical: Sequence[TypicalPod]
    weights: tuple[float, ...] = (1.0,)
    normalise: tuple[bool, ...] | None = None  # None: as each rule is published
    device_rule: str | None = None  # None: that of the heaviest rule

    def choose(self, machines: Sequence[Machine], pod: PodShape, draw: float, mates: Mates = Mates()) -> Machine | None:
        rooms = rack_rooms(machines, pod) if mates.left else [0] * len(machines)
        found = [(m, m.view(mates, room)) for m, room in zip(machines, rooms, strict=True) if m.fits(pod)]
        if not found:
            return None
        totals = [0.0] * len(found)
        for k, name in enumerate(self.names):
            raw = [RULES[name](pod, view, self.typical, draw) for _, view in found]
            wanted = name in NORMALISED if self.normalise is None else self.normalise[k]
            for i, value in enumerate(normalised(raw) if wanted else raw):
                totals[i] += self.weights[k] * value
        highest = max(totals)
        winners = [machine for (machine, _), total in zip(found, totals, strict=True) if total == highest]
        return min(winners, key=lambda machine: machine.rank)

    def devices(self, machine: Machine, pod: PodShape, draw: float) -> tuple[int, ...]:
        """Those it must get, else by the device rule."""
        if pod.gpu_devices:
            return preset(pod)
        heaviest = self.names[max(range(len(self.names)), key=lambda k: self.weights[k])]
        rule = self.device_rule or DEVICE_RULE[heaviest]
        if rule == "fgd" and pod.gpu_count == 1 and pod.gpu_milli < WHOLE:
            device = fgd(pod, machine.view(), self.typical)[1]
            assert device is not None
            return (device,)
        return pick_devices(pod, machine.lefts(), rule, random_unit(int(draw * 2**48), -1))


def mask(devices: Sequence[int]) -> int:
    return sum(2**d for d in devices)


def best_totals(totals: Sequence[float], rank: Sequence[int], count: int) -> list[int]:
    """The candidates with the highest totals, by rank among equals."""
    ordered = sorted(range(len(totals)), key=lambda n: (-totals[n], rank[n]))
    return [n for n in ordered[:count] if totals[n] > float("-inf")]
