"""Go's math/rand with a seeded source, and what the published simulator draws from it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import TypeVar

from pilotage.model.cluster import Node
from pilotage.model.workload import PodShape

Item = TypeVar("Item")


def cooked() -> list[int]:
    """Go's fixed table of 607 initial values, as unsigned words."""
    text = resources.files("pilotage.workloads").joinpath("go_rand_cooked.txt").read_text()
    return [int(line) % 2**64 for line in text.split()]


class GoRandom:
    def __init__(self, seed: int) -> None:
        modulus = 2**31 - 1
        x = abs(seed) % modulus if seed >= 0 else -(abs(seed) % modulus)  # Go's %: the sign of the seed
        if x < 0:
            x += modulus
        if x == 0:
            x = 89482311
        for _ in range(20):
            x = 48271 * x % modulus
        self.state = []
        for word in cooked():
            parts = []
            for _ in range(3):
                x = 48271 * x % modulus
                parts.append(x)
            self.state.append(((parts[0] << 40) ^ (parts[1] << 20) ^ parts[2] ^ word) % 2**64)
        self.tap, self.feed = 0, 334

    def int63(self) -> int:
        self.tap = (self.tap - 1) % 607
        self.feed = (self.feed - 1) % 607
        self.state[self.feed] = (self.state[self.feed] + self.state[self.tap]) % 2**64
        return self.state[self.feed] % 2**63

    def float64(self) -> float:
        while True:
            value = (self.int63() % 2**53) / 2**53
            if value != 1:
                return value

    def intn(self, n: int) -> int:
        if bin(n).count("1") == 1:
            return (self.int63() >> 32) % n
        last = 2**31 - 1 - 2**31 % n
        while True:
            value = self.int63() >> 32
            if value <= last:
                return value % n

    def lemire(self, m: int) -> int:
        product = (self.int63() >> 31) * m
        if product % 2**32 < m:
            threshold = (2**32 - m) % m
            while product % 2**32 < threshold:
                product = (self.int63() >> 31) * m
        return product // 2**32

    def shuffle(self, items: list[Item]) -> None:
        for i in range(len(items) - 1, 0, -1):
            j = self.lemire(i + 1)
            items[i], items[j] = items[j], items[i]

    def perm(self, n: int) -> list[int]:
        result = [0] * n
        for i in range(n):
            j = self.intn(i + 1)
            result[i] = result[j]
            result[j] = i
        return result


def published_arrival(
    pods: Sequence[tuple[str, PodShape]], nodes: Sequence[Node], ratio: float, seed: int
) -> tuple[list[tuple[str, PodShape]], dict[str, int]]:
    """Pods in order of arrival, and each node's rank, for one seed of the published protocol."""
    rand = GoRandom(seed)
    rand.int63()
    by_name = sorted(pods, key=lambda pod: pod[0])
    arriving = list(by_name)
    rand.shuffle(arriving)
    if ratio > 0:
        arriving = _tuned(rand, by_name, arriving, ratio * float(sum(1000 * node.gpu_count for node in nodes)))
    for _ in range(10):
        rand.float64()
    names = sorted(node.name for node in nodes)
    return arriving, dict(zip(names, rand.perm(len(names)), strict=True))


def _tuned(
    rand: GoRandom, by_name: list[tuple[str, PodShape]], arriving: list[tuple[str, PodShape]], target: float
) -> list[tuple[str, PodShape]]:
    total = sum(shape.gpu_milli * shape.gpu_count for _, shape in arriving)
    if total < target:
        i = 0
        while True:
            name, shape = by_name[rand.intn(len(by_name))]
            if float(total + shape.gpu_milli) > target:  # of one device, not of all of them
                return arriving
            total += shape.gpu_milli * shape.gpu_count
            arriving.append((f"{name}-tuned-{i}", shape))
            i += 1
    while total > target:
        i = rand.intn(len(arriving))
        total -= arriving[i][1].gpu_milli * arriving[i][1].gpu_count
        del arriving[i]
    return arriving
