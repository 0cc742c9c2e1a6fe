"""Graph networks without torch: their ONNX model, built from weights when a policy is loaded.

A checkpoint carries tensors and no graph of operations, so what is executed is always this module's reading of them.
The twin in torch is pilotage.training.networks.GraphScorer. Letters as in pilotage.policies.cluster_graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pilotage.kernels.inputs import Float32Array
from pilotage.model.errors import InputError
from pilotage.policies.architectures import INPUTS, Architecture, Tensor
from pilotage.policies.cluster_graph import LEVELS, ClusterGraph

if TYPE_CHECKING:
    import onnx

OPSET, IR_VERSION = 18, 9  # of ONNX; 18 is the first with a maximum in ScatterND
NEGATIVE_SLOPE = 0.2  # of the leaky relu in GATv2


class GraphNetwork:
    """A network ready to score the candidates of one cluster."""

    def __init__(self, architecture: Architecture, tensors: Mapping[str, Tensor]) -> None:
        try:
            import onnx  # noqa: F401
            import onnxruntime
        except ImportError as error:
            problem = "policies of kind graph need onnx and onnxruntime"
            raise InputError(problem, expected="pip install 'pilotage[graph]'") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        model = graph_model(architecture, tensors).SerializeToString()
        self._session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def scores(self, row_WI: Float32Array, graph: ClusterGraph) -> Float32Array:
        fed = {
            "rows": row_WI,
            "source": graph.source_E,
            "target": graph.target_E,
            "above": graph.above_LW.reshape(-1, 1),
            "level": graph.level_U,
            "members": np.maximum(graph.members_U, 1).astype(np.float32)[:, None],
        }
        (score_W1,) = self._session.run(["scores"], fed)
        scores: Float32Array = score_W1[:, 0]
        return scores


def graph_model(architecture: Architecture, tensors: Mapping[str, Tensor]) -> onnx.ModelProto:
    """The network as ONNX: rows of candidates and the cluster graph in, scores out."""
    from onnx import TensorProto, helper

    made = _Model(dict(tensors))
    workers = made.add("Relu", made.dense("rows", "body.embed"))
    values = made.add("Concat", workers, _vertices_above(made, workers, architecture.hidden), axis=0)
    for k in range(architecture.depth):
        attended = _attention(made, values, f"body.attention.{k}", architecture)
        values = made.add("Relu", made.add("Add", values, attended))
    mine = made.add("Slice", values, made.ints(0), made.add("Shape", "rows", end=1))
    made.add("Identity", made.dense(made.add("Relu", made.dense(mine, "inner")), "score"), result="scores")
    real, whole = TensorProto.FLOAT, TensorProto.INT64
    inputs = [
        helper.make_tensor_value_info("rows", real, ["W", INPUTS]),
        helper.make_tensor_value_info("source", whole, ["E"]),
        helper.make_tensor_value_info("target", whole, ["E"]),
        helper.make_tensor_value_info("above", whole, ["LW", 1]),
        helper.make_tensor_value_info("level", whole, ["U"]),
        helper.make_tensor_value_info("members", real, ["U", 1]),
    ]
    outputs = [helper.make_tensor_value_info("scores", real, ["W", 1])]
    graph = helper.make_graph(made.nodes, "scorer", inputs, outputs, made.initializers())
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


@dataclass
class _Model:
    """Operations so far. `add` gives the name of a new one's result, to be used in the next."""

    constants: dict[str, Tensor]
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def add(self, operation: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        from onnx import helper

        result = result or f"{operation}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, inputs, [result], **attributes))
        return result

    def dense(self, values: str, layer: str) -> str:
        return self.add("Gemm", values, f"{layer}.weight", f"{layer}.bias", transB=1)

    def ints(self, *numbers: int) -> str:
        return self._constant(np.array(numbers, np.int64))

    def number(self, number: float) -> str:
        return self._constant(np.array(number, np.float32))

    def _constant(self, array: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = array
        return name

    def filled(self, rows: str, width: int, number: float) -> str:
        """As many rows of `width` numbers as the tensor `rows` has."""
        shape = self.add("Concat", self.add("Shape", rows, end=1), self.ints(width), axis=0)
        return self.add("Expand", self.number(number), shape)

    def initializers(self) -> list[onnx.TensorProto]:
        from onnx import numpy_helper

        return [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in self.constants.items()]


def _vertices_above(made: _Model, workers: str, hidden: int) -> str:
    """Racks, zones and clusters begin as the mean of the workers below them, and something of their own."""
    repeated = made.add("Concat", *[workers] * len(LEVELS), axis=0)
    sums = made.add("ScatterND", made.filled("level", hidden, 0.0), "above", repeated, reduction="add")
    return made.add("Add", made.add("Div", sums, "members"), made.add("Gather", "body.levels", "level"))


def _attention(made: _Model, values: str, layer: str, architecture: Architecture) -> str:
    """One layer of GATv2: each vertex takes the mean of its neighbours, weighed by attention."""
    heads, hidden = architecture.heads, architecture.hidden
    split, targets = made.ints(-1, heads, hidden // heads), made.add("Unsqueeze", "target", made.ints(1))
    said = made.add("Gather", made.dense(values, f"{layer}.lin_l"), "source")
    asked = made.add("Gather", made.dense(values, f"{layer}.lin_r"), "target")
    both = made.add("LeakyRelu", made.add("Add", said, asked), alpha=NEGATIVE_SLOPE)
    weighed = made.add("Mul", made.add("Reshape", both, split), f"{layer}.att")
    attention = made.add("ReduceSum", weighed, made.ints(2), keepdims=0)
    lowest = made.filled(values, heads, float(np.finfo(np.float32).min))
    highest = made.add("ScatterND", lowest, targets, attention, reduction="max")
    powers = made.add("Exp", made.add("Sub", attention, made.add("Gather", highest, "target")))
    sums = made.add("ScatterND", made.filled(values, heads, 0.0), targets, powers, reduction="add")
    shares = made.add("Div", powers, made.add("Gather", sums, "target"))
    message = made.add("Mul", made.add("Reshape", said, split), made.add("Unsqueeze", shares, made.ints(2)))
    flat = made.add("Reshape", message, made.ints(-1, hidden))
    heard = made.add("ScatterND", made.filled(values, hidden, 0.0), targets, flat, reduction="add")
    return made.add("Add", heard, f"{layer}.bias")
