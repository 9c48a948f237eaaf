"""SavedModel: raw text in, probabilities out, with no op that TensorFlow lacks."""

import shlex

import tensorflow as tf

from .base import Format
from .serving import TextFunctions
from .warm_up import write_warm_up
from .weights import STORAGES

CALL = """\
import tensorflow as tf

model = tf.saved_model.load(".")
answer = model.signatures["serving_default"](text=tf.constant(["a text"]))
"""


class SavedModel(Format):
    """What TensorFlow itself loads, TensorFlow Serving's `<base>/<n>/`."""

    name = "saved_model"

    def module(self, model):
        return TextFunctions(model, STORAGES[self.storage])

    def functions(self, module):
        return module.signatures(self.explain)

    def write(self, module, path):
        signatures = self.functions(module)
        tf.saved_model.save(module.stored, str(path), signatures)
        write_warm_up(path, signatures)

    def write_tokenizer(self, model, path):
        """Nothing: it is in the graph."""

    @classmethod
    def next_step(cls, path):
        mount = shlex.quote(f"{path.parent.resolve()}:/models/classifier")
        return (
            "Serve it: docker run -p 8501:8501 -e MODEL_NAME=classifier "
            f"-v {mount} tensorflow/serving"
        )

    @property
    def how_to_call(self):
        return f"```python\n{CALL}```\n\nTensorFlow Serving takes the folder above."

    def load(self, path):
        loaded = tf.saved_model.load(str(path))
        by_text, by_ids = map(loaded.signatures.get, ("serving_default", "token_ids"))

        def run(texts, ids):
            answers = by_text(text=tf.constant(texts)), by_ids(token_ids=ids)
            return [answer["probabilities"].numpy() for answer in answers]

        run.loaded = loaded  # the signatures alone do not keep its weights
        return run
