"""Initial values: every weight a draw of its own, scaled as its scheme asks."""

import keras


def independent(initializer):
    """An initializer whose every draw differs, also when it carries a fixed seed.

    A Keras initializer gives the same numbers at each call, so one that is shared by
    the kernels of a block makes query, key and value equal, and so every block.

    Args:
        initializer: whatever `keras.initializers.get` takes.

    Returns:
        A `keras.initializers.Initializer`. Two runs with the same seed draw the same.

    Example:
        >>> draw = independent("he_normal")
        >>> bool((draw((2, 3)) == draw((2, 3))).all())
        False
    """
    initializer = keras.initializers.get(initializer)
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer  # a function, whose draws are its own affair
    config = initializer.get_config()
    if "seed" not in config or isinstance(
        getattr(initializer, "seed", None), keras.random.SeedGenerator
    ):
        return initializer
    seed = keras.random.SeedGenerator(config["seed"])
    return type(initializer).from_config({**config, "seed": seed})


def scaled(initializer, gain):
    """`initializer` with its values multiplied by `gain`."""
    return lambda shape, dtype=None: gain * initializer(shape, dtype=dtype)


def side_by_side(initializers):
    """One kernel made of as many draws, joined along its last axis.

    A fused kernel drawn at once would get the fan of the whole instead of its parts'.
    """

    def draw(shape, dtype=None):
        *rows, columns = shape
        part = (*rows, columns // len(initializers))
        draws = [initializer(part, dtype=dtype) for initializer in initializers]
        return keras.ops.concatenate(draws, axis=-1)

    return draw
