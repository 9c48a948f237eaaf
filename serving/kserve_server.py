"""An export behind KServe, asked in TensorFlow Serving's forms and in V2's.

    pip install 'kserve>=0.21,<0.22' 'tensorflow>=2.20,<2.22'
    python kserve_server.py --model_name classifier --model_dir served [--batch]

The newest version under `--model_dir` is served. With `--batch`, texts that are asked
for at once by several clients are computed together.
"""

import argparse
import asyncio
import concurrent.futures
import os

import kserve
import numpy as np
import tensorflow as tf
from kserve.errors import InvalidInput
from kserve.model_server import parser as kserve_options
from kserve.utils.numpy_codec import from_np_dtype

CLIENTS = 32  # that are computed for at once
FORMS = (
    'Ask with a list of texts: {"instances": ["a text"]}, {"inputs": ["a text"]}, or '
    'V2\'s {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": '
    '["a text"]}]}, as application/json.'
)


class Classifier(kserve.Model):
    """The newest version of a model that `residual-keras export` wrote.

    Args:
        name: of the model, in the address.
        folder: of its versions.
        batch: whether the texts of several requests are computed together.
    """

    def __init__(self, name, folder, batch=False):
        super().__init__(name)
        versions = [int(n) for n in os.listdir(folder) if n.isdigit()]
        if not versions:
            raise ValueError(
                "A model's folder holds its versions, 1 and so on. Received: "
                f"{folder!r}, which holds none. Write one by `residual-keras export`."
            )
        self.loaded = tf.saved_model.load(os.path.join(folder, str(max(versions))))
        self.functions = dict(self.loaded.signatures)
        if batch:
            self.functions["serving_default"] = batched(
                self.functions["serving_default"]
            )
        self.threads = concurrent.futures.ThreadPoolExecutor(CLIENTS)
        self.ready = True

    async def predict(self, payload, headers=None):
        """Probabilities and label of each text."""
        return await self.ask("serving_default", payload)

    async def explain(self, payload, headers=None):
        """The same, and what each token adds."""
        if "explain" not in self.functions:
            raise NotImplementedError("The model was exported without --explain.")
        return await self.ask("explain", payload)

    async def ask(self, function, payload):
        """Computes in a thread, so that the server goes on answering others."""
        text = texts_of(payload)
        loop = asyncio.get_running_loop()
        ask = self.functions[function]
        found = await loop.run_in_executor(self.threads, lambda: ask(text=text))
        arrays = {output: found[output].numpy() for output in sorted(found)}
        return answer(self.name, payload, arrays)


def batched(function):
    """The function, which computes the texts of several calls at once."""
    together = tf.nondifferentiable_batch_function(
        num_batch_threads=2,
        max_batch_size=CLIENTS,
        batch_timeout_micros=2000,
        max_enqueued_batches=100,
    )(lambda text: function(text=text))
    spec = tf.TensorSpec((None,), tf.string)
    in_graph = tf.function(together, input_signature=[spec])

    def ask(text):
        if 0 < len(text) < CLIENTS:
            return in_graph(text)
        return function(text=text)  # is a batch already

    return ask


def texts_of(payload):
    """The texts of a request, whichever form it has: a string tensor, (n,)."""
    try:
        if isinstance(payload, kserve.InferRequest):
            tensors = {tensor.name: tensor for tensor in payload.inputs}
            texts = tensors["text"].as_numpy().ravel().tolist()
        elif "instances" in payload:
            rows = payload["instances"]
            texts = [row["text"] if isinstance(row, dict) else row for row in rows]
        else:
            texts = payload["inputs"]
            texts = texts["text"] if isinstance(texts, dict) else texts
        text = tf.constant(texts, tf.string)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(FORMS) from error
    if text.shape.rank != 1:
        raise InvalidInput(FORMS)
    return text


def answer(name, payload, arrays):
    """The model's arrays, in the form in which was asked."""
    if isinstance(payload, kserve.InferRequest):
        outputs = []
        for output, array in arrays.items():
            datatype = from_np_dtype(array.dtype)
            outputs.append(kserve.InferOutput(output, list(array.shape), datatype))
            outputs[-1].set_data_from_numpy(array, binary_data=False)
        return kserve.InferResponse(payload.id or "", name, outputs)
    columns = {output: plain(array) for output, array in arrays.items()}
    if "instances" not in payload:
        return {"outputs": columns}
    rows = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in rows]}


def plain(array):
    """An array as JSON has it; strings are bytes in it."""
    if array.dtype == object:
        array = np.vectorize(lambda text: text.decode(errors="replace"), "O")(array)
    return array.tolist()


if __name__ == "__main__":
    options = argparse.ArgumentParser(parents=[kserve_options])
    options.add_argument("--model_dir", required=True, help="of the model's versions")
    options.add_argument("--batch", action="store_true", help="compute texts together")
    args = options.parse_args()
    classifier = Classifier(args.model_name, args.model_dir, args.batch)
    kserve.ModelServer().start([classifier])
