"""What every registered scheme owes those who train it.

The tables name, for a scheme that is rightly different, how and why.
"""

import keras
import numpy as np
from keras import ops

from residual_keras import build_classifier, no_decay, schedule

WIDTH, TIME = 6, 5
VOCAB, CLASSES = 23, 3

# Matrices of a scheme that weight decay applies to; all its other weights are spared.
DECAYED = {
    "attention_residual": [
        f"encoder/residual/{matrix}_{i}/kernel"
        for matrix in ("project", "fuse")
        for i in range(4)
    ],
    "gated_residual": [
        f"encoder/residual/{matrix}_{i}"
        for matrix, last in (("down", 4), ("up", 4), ("share", 3))
        for i in range(last + 1)
    ],
    "gru_gate": [
        f"encoder/residual/{matrix}_{i}/kernel"
        for matrix in ("w_r", "u_r", "w_z", "u_z", "w_g", "u_g")
        for i in range(4)
    ],
    "highway": [f"encoder/residual/gate_{i}/kernel" for i in range(4)],
    "mhc": [f"encoder/residual/kernel_{i}" for i in range(4)],
    "mudd": [
        f"encoder/residual/{matrix}_{block}"
        for matrix in ("expand", "mix")
        for block in (1, 2)
    ],
    "hyper_connections": [f"encoder/residual/kernel_{i}" for i in range(4)],
    "hyper_connections(dynamic=False)": [],
    "input_gate": [f"encoder/residual/gate_{i}/kernel" for i in range(4)],
    "output_gate": [f"encoder/residual/gate_{i}/kernel" for i in range(4)],
    "sigmoid_tanh_gate": [
        f"encoder/residual/{matrix}_{i}/kernel"
        for matrix in ("gate", "value")
        for i in range(4)
    ],
}

# Weights that a loss cannot reach, and why.
UNREACHED = {
    # After the last block a lone factor, which the norm at the end divides out.
    "dense_former(dilation=3, period=2)": ["encoder/residual/alpha_2"],
    # It moves all keys alike, which no softmax over them sees unless they are turned.
    "mudd": ["encoder/residual/key_norm_0/beta"],
}

# Schemes that need another step to be seen to move: without norms, and behind scalars
# that two steps from 0 leave at 1e-4, a step of 0.1 is below what float32 resolves.
STEP_SIZES = {
    "rezero(shared=False)": 10.0,
    "skip_init": 10.0,
    # On this batch, a first step of 0.01 shuts every ReLU of block 0.
    "resi_dual": 0.001,
    "resi_dual(scale=0.5)": 0.001,
}

# Schemes whose default is for long runs, as they are asked for in one of 200 steps.
IN_SHORT = {"prores": "prores(warmup_steps=20)"}


def classifier(residual, **options):
    options = {"embed_dim": WIDTH, "ff_dim": 7, "rate": 0.0, **options}
    return build_classifier(
        VOCAB, CLASSES, residual=residual, num_heads=2, max_len=11, **options
    )


def shaken(layer, rng):
    """The layer with no weight as it started, so that losing one is seen."""
    for weight in layer.trainable_weights:
        weight.assign(weight + 0.1 * rng.normal(size=weight.shape))
    return layer


def numpy(y):
    return ops.convert_to_numpy(y)


def paths(weights):
    return {weight.path for weight in weights}


def texts(rng, count=7, time=TIME):
    ids = rng.integers(2, VOCAB, (count, time)).astype("int32")
    return ids, rng.integers(0, CLASSES, count)


def test_the_compiler_changes_no_loss(trained, rng):
    """Two steps under XLA (jit_compile) give the losses that eager steps give."""
    ids, labels = texts(rng)
    losses = []
    one = shaken(classifier(trained, num_layers=1), rng)
    two = classifier(trained, num_layers=1)
    two.set_weights(one.get_weights())
    for model, options in ((one, {"run_eagerly": True}), (two, {"jit_compile": True})):
        model.compile(keras.optimizers.SGD(0.1), **options)
        losses.append([model.train_on_batch(ids, labels)[0] for _ in range(2)])
    np.testing.assert_allclose(losses[0], losses[1], atol=1e-3)
    assert losses[0][0] != losses[0][1]


def test_gradients_reach_every_weight(most_specs, rng):
    model = classifier(most_specs)  # as it starts: a branch may be dead from there
    ids, labels = texts(rng, count=13, time=11)
    step_size = STEP_SIZES.get(most_specs, 0.1)
    model.compile(keras.optimizers.SGD(step_size), run_eagerly=True)
    for _ in range(2):  # what starts at zero may hide what lies behind it
        model.train_on_batch(ids, labels)
    before = [weight.numpy() for weight in model.trainable_weights]
    model.train_on_batch(ids, labels)
    moved = {
        weight.path: np.abs(weight.numpy() - value).max()
        for weight, value in zip(model.trainable_weights, before, strict=True)
    }
    unmoved = {path for path, step in moved.items() if not step > 1e-7}
    assert unmoved == set(UNREACHED.get(most_specs, {}))


def test_weight_decay_spares_the_right_weights(most_specs, rng, tmp_path):
    decayed = {"embedding/tokens/embeddings", "logits/kernel"}
    decayed |= {
        f"encoder/block_{i}/{matrix}/kernel"
        for i in range(2)
        for matrix in (
            "attention/qkv",
            "attention/output",
            "feed_forward/expand",
            "feed_forward/project",
        )
    }
    decayed |= set(
        DECAYED.get(most_specs, DECAYED.get(most_specs.partition("(")[0], []))
    )

    def check(model):
        weights = model.trainable_weights
        assert paths(weights) - paths(no_decay(model)) == decayed
        for weight in weights:
            weight.assign(ops.ones_like(weight))
        # Without a gradient, decay is all that a step does.
        model.optimizer.apply([ops.zeros_like(w) for w in weights], weights)
        shrunk = {w.path for w in weights if (w.numpy() != 1).any()}
        assert shrunk == decayed

    model = classifier(most_specs)
    model.compile(keras.optimizers.AdamW(0.1, weight_decay=0.5))
    check(model)
    model.save(tmp_path / "x.keras")
    check(keras.models.load_model(tmp_path / "x.keras"))


def test_learns_random_sequences_by_heart(learner, rng):
    ids = rng.integers(2, VOCAB, (64, 7))
    labels = rng.integers(0, CLASSES, 64)
    steps = 200
    rate = schedule("cosine", 1e-2, warmup_steps=20, total_steps=steps)
    model = classifier(IN_SHORT.get(learner, learner), embed_dim=16, ff_dim=32)
    model.compile(keras.optimizers.AdamW(rate), jit_compile=False)
    for _ in range(steps):
        model.train_on_batch(ids, labels)
    right = (numpy(model(ids)).argmax(-1) == labels).mean()
    assert right >= 0.95
