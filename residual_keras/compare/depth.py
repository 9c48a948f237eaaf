"""How strongly each block is pulled at: the norm of its gradient, along depth."""

import keras
from keras import ops


class BlockGradients:
    """The norm of the loss' gradient by the weights of each block.

    By those of attention and feed-forward; a scheme's own weights belong to no block.
    As in a training step, with dropout, but nothing is changed.

    Args:
        classifier: a `Classifier`.

    Call arguments:
        ids: int32 (batch, time).
        labels: int32 (batch,).

    Returns:
        A list of floats, the first block's first.

    Example:
        >>> model = build_classifier(vocab_size=100, num_classes=2, num_layers=6)
        >>> ids, labels = keras.ops.ones((4, 5), "int32"), keras.ops.ones((4,), "int32")
        >>> len(BlockGradients(model)(ids, labels))
        6
    """

    def __init__(self, classifier):
        self.blocks = classifier.get_layer("encoder").blocks
        self.optimizer = Norms()
        # Another model of the same weights: the classifier keeps its own optimizer.
        self.model = keras.Model(classifier.inputs, classifier.outputs)
        self.model.compile(self.optimizer, classifier.default_loss())

    def __call__(self, ids, labels):
        self.model.train_on_batch(ids, labels)
        squares = self.optimizer.squares
        return [
            float(sum(squares[w.path].numpy() for w in block.trainable_weights) ** 0.5)
            for block in self.blocks
        ]


class Norms(keras.optimizers.Optimizer):
    """Keeps the square of each gradient's norm, and leaves the weights as they are."""

    def __init__(self):
        super().__init__(learning_rate=0.0)

    def build(self, variables):
        super().build(variables)
        self.squares = {
            variable.path: self.add_variable((), "zeros", "float32", name=f"square_{i}")
            for i, variable in enumerate(variables)
        }

    def apply(self, grads, trainable_variables=None):
        if not self.built:
            self.build(trainable_variables)
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            # Those of an embedding come as the rows that were looked up.
            gradient = ops.cast(ops.convert_to_tensor(gradient), "float32")
            self.squares[variable.path].assign(ops.sum(ops.square(gradient)))
