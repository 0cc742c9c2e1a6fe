"""Compiled dense networks against the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kernels.dense import Dense, score_rows
from pilotage.kernels.inputs import Float32Array
from pilotage.model.workload import BoolArray, FloatArray
from reference import dense as twin
from reference.strategies import checked

UNTOUCHED = -77.0


def random_layers(seed: int, widths: list[int]) -> list[tuple[Float32Array, Float32Array]]:
    draw = np.random.default_rng(seed)
    return [
        (draw.normal(size=(b, a)).astype(np.float32), draw.normal(size=b).astype(np.float32))
        for a, b in itertools.pairwise(widths)
    ]


def compiled(layers: list[tuple[Float32Array, Float32Array]]) -> Dense:
    widths = [layers[0][0].shape[1], *(len(bias) for _, bias in layers)]
    behind = [part for weight, bias in layers for part in (bias, weight.T.ravel())]
    return Dense(np.array(widths), np.concatenate(behind))


def scores(dense: Dense, pod_I: Float32Array, node_NI: Float32Array, feasible_N: BoolArray) -> FloatArray:
    out_N = np.full(len(node_NI), UNTOUCHED)
    scratch_3H = np.full((3, dense.width_L[1:].max()), np.nan, np.float32)
    score_rows(dense, pod_I, node_NI, feasible_N, scratch_3H, out_N)
    return out_N


@given(
    hidden=st.lists(st.integers(1, 9), max_size=4),
    node_inputs=st.integers(1, 9),
    pod_inputs=st.integers(0, 6),
    nodes=st.integers(0, 5),
    seed=st.integers(0, 99),
)
@checked(150)
def test_scores_are_those_of_the_definition(
    hidden: list[int], node_inputs: int, pod_inputs: int, nodes: int, seed: int
) -> None:
    layers = random_layers(seed, [node_inputs + pod_inputs, *hidden, 1])
    draw = np.random.default_rng(seed + 1)
    pod_I = draw.normal(size=pod_inputs).astype(np.float32)
    node_NI = draw.normal(size=(nodes, node_inputs)).astype(np.float32)
    feasible_N = draw.random(nodes) < 0.7
    found_N = scores(compiled(layers), pod_I, node_NI, feasible_N)
    for n in range(nodes):
        row = [*node_NI[n].tolist(), *pod_I.tolist()]
        wanted = twin.score([(w.tolist(), b.tolist()) for w, b in layers], row) if feasible_N[n] else UNTOUCHED
        assert found_N[n] == pytest.approx(wanted, rel=1e-4, abs=1e-4)


def test_equal_rows_have_equal_scores_wherever_they_stand() -> None:
    dense = compiled(random_layers(3, [24, 33, 17, 1]))
    draw = np.random.default_rng(4)
    pod_I, some_I = draw.random(6).astype(np.float32), draw.random(18).astype(np.float32)
    node_NI = draw.random((1000, 18)).astype(np.float32)
    node_NI[::7] = some_I
    found_N = scores(dense, pod_I, node_NI, np.ones(1000, np.bool_))
    assert len(set(found_N[::7].tolist())) == 1
    assert len(set(found_N.tolist())) > 800
