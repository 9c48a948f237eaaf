"""serving/batching.conf, read as TensorFlow Serving reads it."""

import pathlib

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)

ROOT = pathlib.Path(__file__).parent.parent
PATH = ROOT / "serving" / "batching.conf"


def test_the_batching_has_the_fields_of_tensorflow_serving():
    parameters = batching_parameters()
    text = PATH.read_text(encoding="utf-8")
    text_format.Parse(text, parameters)
    most = parameters.max_batch_size.value
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    assert most > 1 and f"more texts than that, {most}, is refused" in " ".join(
        page.split()
    )
    assert 0 < parameters.batch_timeout_micros.value < 100_000
    # Its padding repeats the first id of a row, which is no padding to the model.
    assert not parameters.pad_variable_length_inputs
    sizes = list(parameters.allowed_batch_sizes)
    assert not sizes or sizes[-1] == most


def batching_parameters():
    """An empty BatchingParameters.

    tensorflow_serving/servables/tensorflow/session_bundle_config.proto, which is not
    in tensorflow-serving-api.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="batching.proto", package="batching", syntax="proto3"
    )
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    made = file.message_type.add(name="BatchingParameters")
    optional, repeated, whole, truth, message = 1, 3, 3, 8, 11
    wrapped = ".google.protobuf.Int64Value"
    for number, name in enumerate(
        (
            "max_batch_size",
            "batch_timeout_micros",
            "max_enqueued_batches",
            "num_batch_threads",
        ),
        start=1,
    ):
        made.field.add(
            name=name, number=number, type=message, type_name=wrapped, label=optional
        )
    made.field.add(name="allowed_batch_sizes", number=6, type=whole, label=repeated)
    made.field.add(
        name="pad_variable_length_inputs", number=7, type=truth, label=optional
    )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    found = pool.FindMessageTypeByName("batching.BatchingParameters")
    return message_factory.GetMessageClass(found)()
