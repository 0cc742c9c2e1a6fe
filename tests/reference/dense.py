"""A dense network as it is defined, one number after the other."""

from __future__ import annotations

from collections.abc import Sequence

Layer = tuple[Sequence[Sequence[float]], Sequence[float]]  # a row of weights per output, biases


def score(layers: Sequence[Layer], row: Sequence[float]) -> float:
    """Relu between the layers, none behind the last, which has one output."""
    values = [float(value) for value in row]
    for k, (weights, biases) in enumerate(layers):
        if k > 0:
            values = [max(value, 0.0) for value in values]
        values = [
            float(bias) + sum(float(w) * value for w, value in zip(weight, values, strict=True))
            for weight, bias in zip(weights, biases, strict=True)
        ]
    return values[0]
