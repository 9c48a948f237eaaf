"""A trained model in the formats of other runtimes, by name."""

from ..spec import look_up
from .litert import LiteRt
from .onnx import Onnx
from .openvino import OpenVino
from .saved_model import SavedModel

FORMATS = {
    "saved_model": SavedModel,
    "onnx": Onnx,
    "openvino": OpenVino,
    "litert": LiteRt,
}


def export_model(
    model,
    base,
    format="saved_model",
    *,
    half_precision=False,
    quantize=False,
    explain=False,
    facts=None,
):
    """Writes a `TextClassifier` as the next version under a folder, `<base>/<n>/`.

    The export computes in float32, whatever the model was trained in. It is loaded in
    its own runtime and compared with the model, on batches of several lengths, with
    padding and an empty text, before it gets its name: a folder that is there holds
    what was compared. Earlier versions stay. Beside the model lie README.md, the model
    card, and for formats without strings tokenizer.json, which any program can follow.

    Args:
        model: a `TextClassifier`.
        base: the folder; made where it is missing.
        format: "saved_model" takes raw text or token ids; "onnx", "openvino" and
            "litert" take token ids, int32 (batch, time), 0 at the end as padding.
        half_precision: whether weights are stored as float16, and cast in the graph.
        quantize: whether matrices are stored as int8, with a scale for each column.
        explain: whether a SavedModel also has the signature `explain`.
        facts: a dict of what the model card should tell beside, such as a run's
            metrics.

    Returns:
        An `Export`.

    Raises:
        ValueError: if `base` cannot be written, a library is missing, the format does
            not carry the model or an argument, or gives other probabilities.

    Example:
        >>> export_model(model, "exported", "onnx").path.name
        '1'
    """
    kind = look_up(FORMATS, format, "format")
    chosen = kind(half_precision=half_precision, quantize=quantize, explain=explain)
    return chosen.export(model, base, facts)


def export_saved_model(model, base, **options):
    """Writes a `TextClassifier` for TensorFlow Serving; see `export_model`.

    Neither Keras nor this package is needed to serve, and weights are stored once.

    Signatures:

    - serving_default: text, string (None,) -> probabilities, float32 (None, labels),
      and label, string (None,).
    - token_ids: token_ids, int32 (None, None), 0 at the end as padding -> the same.
    - embed: text -> embedding, float32 (None, width): the pooled vectors.
    - explain, where asked: text -> tokens, string (None, None), attributions, float32
      alike (see `TextFunctions.explain`), and what serving_default gives.

    Longer texts are truncated as the vectoriser says; ids beyond `max_len` of a model
    with learned positions are an error that names both lengths.

    Args:
        model: a `TextClassifier`.
        base: the folder; made where it is missing.
        **options: of `export_model`, format left out.

    Returns:
        The path of the version.

    Raises:
        ValueError: as `export_model`.

    Example:
        >>> export_saved_model(model, "exported").name
        '1'
    """
    return export_model(model, base, "saved_model", **options).path
