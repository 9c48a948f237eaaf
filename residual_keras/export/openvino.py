"""OpenVINO: token ids in, probabilities out, for Intel's processors."""

from .base import Format


class OpenVino(Format):
    """`model.xml` and `model.bin`, with the ids made by tokenizer.json.

    It is compared at `INFERENCE_PRECISION_HINT` "f32". The runtime's own choice is
    bfloat16 on processors that have it, and differs by up to 0.01.
    """

    name = "openvino"
    libraries = ("openvino",)
    refused = {
        "explain": "it has one function",
        "quantize": "its runtime aborts on int8 that ids look up, and rounds what int8 "
        "is multiplied with",
    }
    call = """\
import openvino

core = openvino.Core()
model = core.compile_model("model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
probabilities = model(ids)["probabilities"]
"""

    def write(self, module, path):
        import openvino

        [function] = self.functions(module).values()
        model = openvino.convert_model(function)
        # Half precision is in the graph already, and compressing adds its own rounding.
        openvino.save_model(model, path / "model.xml", compress_to_fp16=False)

    def load(self, path):
        import openvino

        model = openvino.Core().compile_model(
            path / "model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
        )
        return lambda texts, ids: [model(ids)["probabilities"]]
