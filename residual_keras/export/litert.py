"""LiteRT, once TensorFlow Lite: token ids in, probabilities out, on small devices."""

import tensorflow as tf

from .base import Format


class LiteRt(Format):
    """`model.tflite`, of built-in ops alone; the ids are made by tokenizer.json."""

    name = "litert"
    libraries = ("ai_edge_litert",)
    refused = {"explain": "it has one function"}
    call = """\
from ai_edge_litert.interpreter import Interpreter

run = Interpreter("model.tflite").get_signature_runner()
probabilities = run(token_ids=ids)["probabilities"]
"""

    def write(self, module, path):
        [function] = self.functions(module).values()
        converter = tf.lite.TFLiteConverter.from_concrete_functions(
            [function], module.stored
        )
        if self.storage == "float16":
            # Otherwise stored as the float32 that they are cast to. For int8 this would
            # round what the layers are given too.
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.target_spec.supported_types = [tf.float16]
        (path / "model.tflite").write_bytes(converter.convert())

    def load(self, path):
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(str(path / "model.tflite"))
        run = interpreter.get_signature_runner()
        return lambda texts, ids: [run(token_ids=ids)["probabilities"]]
