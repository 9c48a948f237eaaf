"""Forgetting what a function computed, and computing it again for the gradient."""

import dataclasses

import keras
from keras import ops


@keras.saving.register_keras_serializable("residual_keras")
class Recomputation(keras.layers.Layer):
    """Runs functions in training whose gradient is had by running them once more.

    `keras.remat` (Chen et al. 2016, arXiv:1604.06174), which keeps the arguments alone,
    for functions of any nested structure and for layers whose dropout draws numbers:
    both runs draw the same.

    Example:
        >>> recomputation = Recomputation()
        >>> double = lambda state: {"x": 2 * state["x"], "memory": None}
        >>> float(recomputation.run(double, {"x": keras.ops.ones(())}, [])["x"])
        2.0
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seeds = keras.random.SeedGenerator()

    def call(self, function=None, training=None):
        # The second run comes when the call of the stack is over: what Keras hands to
        # the layers in one, `training` and the precision, they have from this one.
        return function()

    def run(self, function, argument, layers):
        """What `function(argument)` gives.

        Args:
            function: of one nested structure; returns another.
            argument: that structure; its tensors are what is kept.
            layers: those that the function runs.

        Returns:
            What the function returns.
        """
        tensors, shape = taken_apart(argument)
        states = [v for layer in layers for v in layer.non_trainable_variables]
        before = [ops.copy(state) for state in states]
        # Dropout counts its draws in a variable that is no weight: each function is to
        # begin at numbers of its own.
        weights = {id(weight) for layer in layers for weight in layer.weights}
        starts = [
            value if id(state) in weights else self.draw(state)
            for state, value in zip(states, before, strict=True)
        ]
        shape_of_result = None

        def once(*tensors):
            nonlocal shape_of_result
            # Found anew in the second run, when later ones have moved them on.
            found = [ops.copy(state) for state in states]
            assign(states, starts)
            argument = put_together(shape, tensors)
            results = self(function=lambda: function(argument), training=True)
            results, shape_of_result = taken_apart(results)
            assign(states, found)
            return tuple(results)

        results = keras.remat(once)(*tensors)
        assign(states, before)  # by values that do not stem from inside of `once`
        return put_together(shape_of_result, results)

    def draw(self, state):
        """Random numbers for a variable to hold."""
        numbers = keras.random.randint(state.shape, 0, 2**31 - 1, seed=self.seeds)
        return ops.cast(numbers, state.dtype)


def assign(variables, values):
    """Sets each variable."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def taken_apart(nested):
    """The tensors of a structure, and the structure with a `Place` for each."""
    tensors = []

    def place(leaf):
        if not ops.is_tensor(leaf):
            return leaf
        tensors.append(leaf)
        return Place(len(tensors) - 1)

    shape = keras.tree.map_structure(place, nested)
    return tensors, shape


def put_together(shape, tensors):
    """The structure of which `taken_apart` gave the shape, with these tensors."""

    def tensor(leaf):
        return tensors[leaf.number] if isinstance(leaf, Place) else leaf

    return keras.tree.map_structure(tensor, shape)


@dataclasses.dataclass
class Place:
    """Where a structure holds a tensor."""

    number: int
