"""ONNX: token ids in, probabilities out, for ONNX Runtime and its kin."""

import numpy as np

from .base import Format

OPSET = 18


class Onnx(Format):
    """`model.onnx`; the ids are made by what stands in tokenizer.json."""

    name = "onnx"
    libraries = ("onnx", "tf2onnx", "onnxruntime")
    refused = {"explain": "it has one function"}
    call = """\
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
[probabilities] = session.run(["probabilities"], {"token_ids": ids})
"""

    def write(self, module, path):
        import onnx
        import tf2onnx

        function = module.probabilities_of_ids
        model, _ = tf2onnx.convert.from_function(
            function,
            function.input_signature,
            opset=OPSET,
            custom_op_handlers={"Erfc": (one_minus_erf, [])},
        )
        if self.storage in STORES:
            shrink(model.graph, STORES[self.storage])
        onnx.checker.check_model(model)
        onnx.save(model, path / "model.onnx")

    def load(self, path):
        import onnxruntime

        session = onnxruntime.InferenceSession(
            path / "model.onnx", providers=["CPUExecutionProvider"]
        )
        return lambda texts, ids: session.run(["probabilities"], {"token_ids": ids})


def one_minus_erf(context, node, name, args):
    """erfc(x) = 1 - erf(x), for ONNX has the latter only."""
    one = context.make_const(f"{name}_one", np.array(1, "float32")).output[0]
    erf = context.make_node("Erf", node.input).output[0]
    shapes, dtypes = [context.get_shape(name)], [context.get_dtype(name)]
    context.remove_node(name)
    context.make_node(
        "Sub", [one, erf], outputs=node.output, name=name, shapes=shapes, dtypes=dtypes
    )


def as_half(value):
    """A matrix as float16, and what to multiply it by."""
    return value.astype("float16"), np.float32(1)


def as_int8(value):
    """A matrix as `weights.Int8` stores it, and its scales."""
    scale = np.abs(value).max(axis=tuple(range(value.ndim - 1))) / np.float32(127)
    scale = np.where(scale > 0, scale, np.float32(1))
    return np.round(value / scale).astype("int8"), scale


def shrink(graph, store):
    """Stores a graph's matrices in fewer bits again: the converter made them float32.

    They are cast and multiplied where they are used, by operators that every runtime
    computes as they are written: ONNX Runtime joins a DequantizeLinear with the product
    that follows, and rounds the other factor too.

    Args:
        graph: of a `ModelProto`.
        store: `as_half` or `as_int8`.
    """
    from onnx import TensorProto, helper, numpy_helper

    constants, nodes = [], []
    for constant in graph.initializer:
        value, name = numpy_helper.to_array(constant), constant.name
        few = False
        if value.dtype == "float32" and value.ndim > 1:
            stored, scale = store(value)
            few = np.allclose(stored * scale, value, rtol=1e-6, atol=0)
        if few:  # as it was stored, that is; others are no weights
            parts = [f"{name}_{part}" for part in ("stored", "scale", "cast")]
            constants += map(numpy_helper.from_array, (stored, scale), parts)
            nodes += [
                helper.make_node("Cast", parts[:1], parts[2:], to=TensorProto.FLOAT),
                helper.make_node("Mul", parts[:0:-1], [name]),
            ]
        else:
            constants.append(constant)
    nodes += graph.node
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(constants)
    graph.node.extend(nodes)


STORES = {"float16": as_half, "int8": as_int8}
