"""Scores of dense networks (relu between layers), node by node, outside the compiled episode.

A node's score depends on its own row alone and is always added up in the same order, so equal rows have equal scores
wherever they stand. The pod's inputs are the same for all nodes: their part of the first layer is computed once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pilotage.kernels.compiling import inlined_inner, kernel
from pilotage.kernels.inputs import Float32Array
from pilotage.model.workload import BoolArray, FloatArray, IntArray


class Dense(NamedTuple):
    """Weights of all layers behind each other: for each its biases, then its matrix, a row of outputs per input."""

    width_L: IntArray  # inputs, hidden layers, 1
    weight_P: Float32Array


@inlined_inner
def copy_row(from_H: Float32Array, start: int, to_H: Float32Array) -> None:
    for h in range(to_H.shape[0]):
        to_H[h] = from_H[start + h]


@inlined_inner
def add_products(weight_P: Float32Array, start: int, in_I: Float32Array, out_O: Float32Array) -> None:
    """Adds matrix times inputs to the outputs; the matrix begins at `start`.

    Four inputs at a time, so that outputs are read and written a quarter as often.
    """
    inputs, outputs = in_I.shape[0], out_O.shape[0]
    whole = inputs - inputs % 4
    for i in range(0, whole, 4):
        a, b, c, d = in_I[i], in_I[i + 1], in_I[i + 2], in_I[i + 3]
        at = start + i * outputs
        first_O, at = weight_P[at : at + outputs], at + outputs
        second_O, at = weight_P[at : at + outputs], at + outputs
        third_O, at = weight_P[at : at + outputs], at + outputs
        fourth_O = weight_P[at : at + outputs]
        for o in range(outputs):
            out_O[o] += a * first_O[o] + b * second_O[o] + c * third_O[o] + d * fourth_O[o]
    for i in range(whole, inputs):
        a, row_O = in_I[i], weight_P[start + i * outputs : start + (i + 1) * outputs]
        for o in range(outputs):
            out_O[o] += a * row_O[o]


@kernel
def score_rows(
    dense: Dense,
    pod_I: Float32Array,
    node_NI: Float32Array,
    feasible_N: BoolArray,
    scratch_3H: Float32Array,
    out_N: FloatArray,
) -> None:
    """Scores of the candidates; the pod's inputs come behind the node's. Scratch is as wide as the widest layer."""
    width_L, weight_P = dense.width_L, dense.weight_P
    inputs, first = node_NI.shape[1], width_L[1]
    shared_H = scratch_3H[2, :first]
    copy_row(weight_P, 0, shared_H)
    add_products(weight_P, first + inputs * first, pod_I, shared_H)
    for n in range(out_N.shape[0]):
        if not feasible_N[n]:
            continue
        values = scratch_3H[0, :first]
        copy_row(shared_H, 0, values)
        add_products(weight_P, first, node_NI[n], values)
        start = first + width_L[0] * first
        for layer in range(2, width_L.shape[0]):
            outputs = width_L[layer]
            for i in range(values.shape[0]):
                values[i] = max(values[i], np.float32(0.0))
            further = scratch_3H[(layer + 1) % 2, :outputs]
            copy_row(weight_P, start, further)
            add_products(weight_P, start + outputs, values, further)
            start += outputs * (values.shape[0] + 1)
            values = further
        out_N[n] = values[0]
