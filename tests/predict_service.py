"""TensorFlow Serving's PredictionService over a SavedModel: Predict, in a few lines.

Its messages, its servicer and its stub are those of tensorflow-serving-api.
"""

import concurrent.futures
import contextlib

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


class Predictions(prediction_service_pb2_grpc.PredictionServiceServicer):
    """One model, by its name."""

    def __init__(self, name, folder):
        self.name = name
        self.loaded = tf.saved_model.load(str(folder))

    def Predict(self, request, context):  # noqa: N802, the service's name for it
        asked = request.model_spec
        function = self.loaded.signatures.get(asked.signature_name or "serving_default")
        if asked.name != self.name or function is None:
            context.abort(grpc.StatusCode.NOT_FOUND, str(asked))
        inputs = {
            name: tf.constant(tf.make_ndarray(tensor))
            for name, tensor in request.inputs.items()
        }
        try:
            found = function(**inputs)
        except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        answer = predict_pb2.PredictResponse(model_spec=asked)
        for name, tensor in found.items():
            answer.outputs[name].CopyFrom(tf.make_tensor_proto(tensor))
        return answer


@contextlib.contextmanager
def predict_server(name, folder):
    """Serves a version's folder on a port of this machine; yields the port."""
    threads = concurrent.futures.ThreadPoolExecutor(2)
    server = grpc.server(threads)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Predictions(name, folder), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()
        threads.shutdown()
