"""Requests that TensorFlow Serving answers before it says that a model is ready.

It reads them from `assets.extra/tf_serving_warmup_requests`, a TFRecord of
`PredictionLog`. Of that message and those inside it five fields are needed, so they are
written here as Protocol Buffers encode them, and tensorflow-serving-api is not needed.
"""

import tensorflow as tf

INPUTS = {
    "text": [[""], ["a text of a few words"], ["a text"] * 8],
    "token_ids": [[[1]], [[1] * 8] * 8],
}


def write_warm_up(path, signatures):
    """Writes requests of several shapes for each signature.

    Args:
        path: of the version's folder.
        signatures: dict from a signature's name to its concrete function.
    """
    folder = path / "assets.extra"
    folder.mkdir()
    with tf.io.TFRecordWriter(str(folder / "tf_serving_warmup_requests")) as file:
        for signature, function in signatures.items():
            [spec] = tf.nest.flatten(function.structured_input_signature)
            for values in INPUTS[spec.name]:
                value = tf.constant(values, spec.dtype)
                file.write(prediction_log(signature, spec.name, value))


def prediction_log(signature, name, value):
    """A serialised `PredictionLog` with one request.

    Args:
        signature: the name of the function that is called.
        name: of its input.
        value: of its input, a tensor.

    Returns:
        Bytes.
    """
    tensor = tf.make_tensor_proto(value).SerializeToString()
    model_spec = field(3, signature.encode())
    entry = field(1, name.encode()) + field(2, tensor)  # of the map of inputs
    request = field(1, model_spec) + field(2, entry)
    return field(6, field(1, request))  # predict_log, and its request


def field(number, payload):
    """A field of variable length in the encoding of Protocol Buffers."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(number):
    """A number, seven bits a byte, the lowest first; the eighth says that more come."""
    rest = []
    while number > 127:
        rest.append(number & 127 | 128)
        number >>= 7
    return bytes([*rest, number])
