"""The generator of Go's math/rand (seeded global source), so that any seed gives the published order of pods.

Additive lagged Fibonacci of length 607 and tap 273. The state is an array of 607 words and one of two positions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pilotage.kernels.compiling import inlined, kernel
from pilotage.model.workload import IntArray

LENGTH, TAP = 607, 273
HALF, BITS, POSITIVE = np.uint64(2**32 - 1), np.uint64(32), np.uint64(2**63 - 1)
UIntArray = npt.NDArray[np.uint64]


class GoSource(NamedTuple):
    """State of the generator."""

    word_607: UIntArray
    position_2: IntArray  # tap, feed


def go_source(seed: int, cooked_607: UIntArray) -> GoSource:
    """As rand.NewSource(seed). `cooked_607` is Go's fixed table of initial values."""
    modulus = 2**31 - 1
    x = seed % modulus if seed >= 0 else -(-seed % modulus) + modulus
    x = x % modulus or 89482311
    words = np.empty(LENGTH, np.uint64)
    for i in range(-20, LENGTH):
        word = 0
        for shift in (40, 20, 0):
            x = 48271 * x % modulus
            if i >= 0:
                word ^= x << shift
            else:
                break
        if i >= 0:
            words[i] = (word ^ int(cooked_607[i])) & (2**64 - 1)
    return GoSource(words, np.array([0, LENGTH - TAP], np.int64))


@kernel
def int63(source: GoSource) -> int:
    position = source.position_2
    for k in range(2):
        position[k] = position[k] - 1 if position[k] > 0 else LENGTH - 1
    a, b = source.word_607[position[1]], source.word_607[position[0]]
    # The sum modulo 2^64, by halves: numpy would warn of the overflow that is wanted here.
    low = (a & HALF) + (b & HALF)
    high = (a >> BITS) + (b >> BITS) + (low >> BITS)
    word = ((high & HALF) << BITS) | (low & HALF)
    source.word_607[position[1]] = word
    return np.int64(word & POSITIVE)  # type: ignore[return-value]


@inlined
def intn(source: GoSource, n: int) -> int:
    """Intn for 0 < n < 2^31."""
    if n & (n - 1) == 0:
        return (int63(source) >> 32) & (n - 1)
    highest = (1 << 31) - 1 - (1 << 31) % n
    value = int63(source) >> 32
    while value > highest:
        value = int63(source) >> 32
    return value % n


@inlined
def below32(source: GoSource, n: int) -> int:
    """Lemire's method on 32 bits, as Shuffle uses it."""
    product = (int63(source) >> 31) * n
    low = product & 0xFFFFFFFF
    if low < n:
        threshold = ((1 << 32) - n) % n
        while low < threshold:
            product = (int63(source) >> 31) * n
            low = product & 0xFFFFFFFF
    return product >> 32


@kernel
def shuffle(source: GoSource, values: IntArray) -> None:
    for i in range(values.shape[0] - 1, 0, -1):
        j = below32(source, i + 1)
        values[i], values[j] = values[j], values[i]


@kernel
def permutation(source: GoSource, values: IntArray) -> None:
    for i in range(values.shape[0]):
        j = intn(source, i + 1)
        values[i] = values[j]
        values[j] = i


@kernel
def draw_until(
    source: GoSource, gpu_milli_P: IntArray, total_P: IntArray, total: int, target: float, drawn: IntArray
) -> int:
    """Tuning up: indices of pods to add until the next one's milli (of one device) would pass the target.

    Returns how many were drawn; -1 when `drawn` is too short.
    """
    count = 0
    while True:
        i = intn(source, gpu_milli_P.shape[0])
        if total + gpu_milli_P[i] > target:
            return count
        if count == drawn.shape[0]:
            return -1
        total += total_P[i]
        drawn[count] = i
        count += 1


@kernel
def remove_until(source: GoSource, rows: IntArray, total_P: IntArray, total: int, target: float, tree: IntArray) -> int:
    """Tuning down: removes pods drawn from `rows` (indices into total_P), in place; returns how many stay.

    `tree` is scratch of len(rows) + 1: a Fenwick tree that counts who is still there, so that "the i-th of those left"
    costs a logarithm instead of moving the list.
    """
    length = rows.shape[0]
    for i in range(1, length + 1):
        tree[i] = i & -i
    size = length
    while total > target:
        at = take_out(tree, intn(source, size))
        total -= total_P[rows[at]]
        rows[at] = -1
        size -= 1
    kept = 0
    for i in range(length):
        if rows[i] >= 0:
            rows[kept] = rows[i]
            kept += 1
    return kept


@kernel
def take_out(tree: IntArray, i: int) -> int:
    """Position of the i-th entry still there (from 0), which is there no more."""
    length, at, step = tree.shape[0] - 1, 0, 1
    while step * 2 <= length:
        step *= 2
    while step > 0:
        if at + step <= length and tree[at + step] <= i:
            at += step
            i -= tree[at]
        step //= 2
    j = at + 1
    while j <= length:
        tree[j] -= 1
        j += j & -j
    return at
