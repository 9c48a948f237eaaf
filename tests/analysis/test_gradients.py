"""Gradient norms, of one batch and along training."""

import csv

import keras
import numpy as np
import pytest
import tensorflow as tf

from residual_keras import analysis, build_classifier


def test_norms_are_those_of_the_tape(classifier, ids, labels):
    found = analysis.gradient_norms(classifier, ids, labels)
    groups = ["embedding", "encoder/block_0", "encoder/block_1"]
    assert found.groups[:3] == groups and found.groups[-1] == "logits"
    stack = classifier.get_layer("encoder")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for name, layer in {
        "encoder/block_0": stack.blocks[0],
        "encoder/block_1": stack.blocks[1],
        "encoder/residual": stack.residual,
        "logits": classifier.get_layer("logits"),
    }.items():
        weights = layer.trainable_weights
        if not weights:
            assert name not in found.groups
            continue
        with tf.GradientTape() as tape:
            value = loss(labels, classifier(ids))
        slopes = tape.gradient(value, [w.value for w in weights])
        square = sum(np.sum(np.square(s)) for s in slopes if s is not None)
        ours = found.norms[0, found.groups.index(name)]
        np.testing.assert_allclose(ours, np.sqrt(square), rtol=1e-6)


def test_every_trainable_weight_is_in_one_group(classifier):
    from residual_keras.analysis.gradients import weight_groups

    grouped = [id(w) for group in weight_groups(classifier).values() for w in group]
    assert sorted(grouped) == sorted(id(w) for w in classifier.trainable_weights)


def test_behind_a_scale_of_zero_only_the_scale_learns(ids, labels):
    model = build_classifier(23, 3, residual="rezero", embed_dim=8, num_heads=2)
    found = analysis.gradient_norms(model, ids, labels)
    norms = dict(zip(found.groups, found.norms[0], strict=True))
    assert norms["encoder/block_0"] == norms["encoder/block_1"] == 0
    assert norms["encoder/residual"] > 0 and norms["embedding"] > 0


def test_a_model_without_a_loss(ids, labels):
    from residual_keras import MeanPooling, TransformerBlock

    x = inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(23, 8, mask_zero=True, name="embedding")(x)
    x = MeanPooling()(TransformerBlock(8, 2, 11, name="mine")(x))
    model = keras.Model(inputs, keras.layers.Dense(3, name="logits")(x))
    with pytest.raises(ValueError, match="no loss.*Compile it"):
        analysis.gradient_norms(model, ids, labels)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    given = analysis.gradient_norms(model, ids, labels, loss)
    assert given.groups == ["embedding", "mine", "logits"]
    model.compile("adam", loss)
    compiled = analysis.gradient_norms(model, ids, labels)
    np.testing.assert_array_equal(compiled.norms, given.norms)


def test_callback_logs_to_history_and_to_a_file(ids, labels, tmp_path):
    model = build_classifier(
        23, 3, num_layers=1, embed_dim=8, num_heads=2, max_len=9, rate=0.0
    )
    model.compile("adam", run_eagerly=True)
    first = analysis.gradient_norms(model, ids, labels)
    callback = analysis.GradientNorms(ids, labels, every=2)
    log = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    history = model.fit(
        ids, labels, batch_size=1, epochs=2, callbacks=[callback, log], verbose=0
    )
    found = callback.profile
    assert found.steps.tolist() == [0, 2, 4, 6, 8, 10]
    np.testing.assert_array_equal(found.norms[0], first.norms[0])
    last = analysis.gradient_norms(model, ids, labels)
    np.testing.assert_allclose(found.norms[-1], last.norms[0], rtol=1e-5)
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    for k, name in enumerate(found.groups):
        means = [found.norms[1:3, k].mean(), found.norms[3:, k].mean()]
        logged = history.history[f"gradients/{name}"]
        np.testing.assert_allclose(logged, means, rtol=1e-6)
        written = [float(row[f"gradients/{name}"]) for row in rows]
        np.testing.assert_allclose(written, means, rtol=1e-6)
    axes = found.plot()
    assert [line.get_label() for line in axes.lines][-1] == "step 10"
    assert len(axes.lines) == 6


def test_an_epoch_shorter_than_the_interval_is_measured_at_its_end(ids, labels):
    callback = analysis.GradientNorms(ids, labels)
    callback.set_model(build_classifier(23, 3, embed_dim=8, num_heads=2))
    callback.on_train_begin()
    callback.on_train_batch_end(0)
    logs = {}
    callback.on_epoch_end(0, logs)
    assert len(callback.found) == 2
    assert logs["gradients/logits"] == callback.profile.norms[1, -1]


@pytest.mark.parametrize("every", [0, -1, 2.5, None])
def test_intervals_are_whole_numbers(every, ids, labels):
    with pytest.raises(ValueError, match="every must be a positive whole number"):
        analysis.GradientNorms(ids, labels, every=every)
