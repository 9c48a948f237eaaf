"""The functions that an export offers, over weights as it stores them."""

import keras
import tensorflow as tf

from .weights import Exact

TEXT = tf.TensorSpec((None,), tf.string, name="text")
TOKEN_IDS = tf.TensorSpec((None, None), tf.int32, name="token_ids")


class IdsFunctions:
    """Token ids -> probabilities, over the bare variables of a `TextClassifier`.

    Keras' own export keeps its variables' wrappers beside the variables, and so writes
    every weight twice.

    Args:
        model: a `TextClassifier`.
        storage: how weights are stored, a class of `weights.STORAGES`.

    Attributes:
        stored: a `tf.Module` with what the functions need, for TensorFlow to save.
    """

    def __init__(self, model, storage=Exact):
        self.model = model
        self.stored = tf.Module()
        self.stored.weights = [storage(variable.value) for variable in model.variables]

    @tf.function(input_signature=[TOKEN_IDS])
    def probabilities_of_ids(self, token_ids):
        """Probabilities alone, for formats that know no strings."""
        return {"probabilities": self.probabilities(token_ids)}

    def probabilities(self, ids):
        """(batch, classes) from token ids, by the weights as they are stored."""
        with self.scope(self.read()):
            return self.model.probabilities(ids)

    def read(self):
        """The weights as they are stored, in the types that the model computes with."""
        return [weight.read() for weight in self.stored.weights]

    def scope(self, weights):
        """A scope in which the model computes with these weights."""
        variables = self.model.variables
        return keras.StatelessScope(list(zip(variables, weights, strict=True)))


class TextFunctions(IdsFunctions):
    """Raw text -> probabilities, labels, vectors and what each token adds.

    Args:
        model: a `TextClassifier`. The classifiers of `build_classifier` have layers
            named embedding and pooling; one without offers fewer functions.
        storage: as in `IdsFunctions`.
    """

    def __init__(self, model, storage=Exact):
        super().__init__(model, storage)
        self.stored.tables = model.vectorizer.tables
        classifier = model.classifier
        outputs = {"logits": classifier.output}
        for layer in classifier.layers:
            if layer.name in ("embedding", "pooling"):
                outputs[layer.name] = layer.output
        self.parts = keras.Model(classifier.inputs, outputs)

    def signatures(self, explain=False):
        """The functions by the name that a client calls them by.

        Raises:
            ValueError: if `explain` is asked of a classifier without embedding.
        """
        found = {"serving_default": self.from_text, "token_ids": self.from_ids}
        if "pooling" in self.parts.output:
            found["embed"] = self.embed
        if explain:
            if "embedding" not in self.parts.output:
                raise ValueError(
                    "To explain needs a layer of the name embedding, and the "
                    f"classifier {self.model.classifier.name!r} has none. Export "
                    "without explain."
                )
            found["explain"] = self.explain
        return {name: f.get_concrete_function() for name, f in found.items()}

    @tf.function(input_signature=[TEXT])
    def from_text(self, text):
        """Probabilities and label of raw texts."""
        return self.from_ids(self.model.vectorizer.call(text))

    @tf.function(input_signature=[TOKEN_IDS])
    def from_ids(self, token_ids):
        """Probabilities and label of token ids."""
        parts = self.forward(token_ids)
        return self.named(self.model.scores(parts["logits"]))

    @tf.function(input_signature=[TEXT])
    def embed(self, text):
        """The pooled vectors of raw texts."""
        parts = self.forward(self.model.vectorizer.call(text))
        return {"embedding": parts["pooling"]}

    @tf.function(input_signature=[TOKEN_IDS])
    def forward(self, ids):
        """What the classifier's parts give for token ids."""
        with self.scope(self.read()):
            return self.parts(ids, training=False)

    @tf.function(input_signature=[TEXT])
    def explain(self, text):
        """What each token adds to the likeliest label's logit, to the first order.

        The gradient of that logit, times the token's embedding, summed over its width.
        Source: Shrikumar et al. 2017, arXiv:1704.02685 (gradient x input).
        """
        vectorizer = self.model.vectorizer
        tokens, ids = vectorizer.token_strings(text), vectorizer.call(text)
        weights = self.read()
        with tf.GradientTape() as tape:
            tape.watch([weight for weight in weights if weight.dtype.is_floating])
            with self.scope(weights):
                parts = self.parts(ids, training=False)
            scores = self.model.scores(parts["logits"])
            likeliest = tf.reduce_max(scores, axis=1)
        gradient = tape.gradient(likeliest, parts["embedding"])
        added = tf.reduce_sum(gradient * parts["embedding"], axis=2)
        return {
            "tokens": tokens.to_tensor(shape=tf.shape(ids)),
            "attributions": tf.cast(added, tf.float32),
            **self.named(scores),
        }

    def named(self, scores):
        """Probabilities and label by name."""
        probabilities = keras.ops.softmax(scores)
        names = tf.constant(self.model.label_names)
        label = tf.gather(names, tf.argmax(probabilities, 1))
        return {"probabilities": probabilities, "label": label}
