"""The stream along depth, against a pass by hand."""

import numpy as np
import pytest
from keras import ops

from residual_keras import analysis


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def by_hand(classifier, ids):
    """The stream and the updates of all sublayers, by the scheme's verbs."""
    from residual_keras.attention import attention_bias

    stack = classifier.get_layer("encoder")
    residual = stack.residual
    x = classifier.get_layer("embedding")(ids)
    bias = attention_bias(x, ids != 0)
    streams, updates, state = [x], [], residual.start(x)
    for block in stack.blocks:
        for f in (lambda u, b=block: b.attention(u, bias), block.feed_forward):
            i = len(updates)
            updates.append(f(residual.read(state, i)))
            streams.append(residual.exit(state, updates[-1], i))
            state = residual.write(state, updates[-1], i)
    return [[ops.convert_to_numpy(t) for t in found] for found in (streams, updates)]


def test_sizes_and_cosines_are_those_of_a_pass_by_hand(classifier, ids):
    streams, updates = by_hand(classifier, ids)
    found = analysis.stream_profile(classifier, ids)
    real = [(b, t) for b, t in np.ndindex(ids.shape) if ids[b, t]]

    def rms(x):
        return np.sqrt(np.mean([x[place] ** 2 for place in real]))

    np.testing.assert_allclose(found.rms, [rms(x) for x in streams], rtol=1e-9)
    np.testing.assert_allclose(found.updates, [rms(x) for x in updates], rtol=1e-9)
    np.testing.assert_allclose(
        found.ratio, [rms(u) / rms(x) for u, x in zip(updates, streams, strict=False)]
    )
    turned = [
        np.mean([cosine(a[place], b[place]) for place in real])
        for a, b in zip(streams[:-1], streams[1:], strict=True)
    ]
    np.testing.assert_allclose(found.cosine, turned, rtol=1e-9)
    alike = []
    for x in streams:
        texts = []
        for b, row in enumerate(ids):
            places = [t for t in range(len(row)) if row[t]]
            pairs = [(s, t) for s in places for t in places if s < t]
            if pairs:
                texts.append(np.mean([cosine(x[b, s], x[b, t]) for s, t in pairs]))
        alike.append(np.mean(texts))
    np.testing.assert_allclose(found.token_cosine, alike, rtol=1e-9)


def test_padding_changes_nothing(make, ids):
    short = analysis.stream_profile(make("mhc"), ids)
    padded = analysis.stream_profile(make("mhc"), np.pad(ids, [(0, 0), (0, 2)]))
    for name in ("rms", "updates", "cosine", "token_cosine"):
        np.testing.assert_allclose(
            getattr(padded, name), getattr(short, name), rtol=1e-9
        )


def test_what_enters_where_nothing_is_added(make, ids):
    """`rezero` at a = 0 is the identity: the same stream, whatever its updates are."""
    model = make("rezero", num_layers=3)
    alpha = model.get_layer("encoder").residual.alpha
    before = alpha.numpy()
    alpha.assign(np.zeros(3))
    try:
        found = analysis.stream_profile(model, ids)
    finally:
        alpha.assign(before)
    np.testing.assert_allclose(found.rms, found.rms[0])
    np.testing.assert_allclose(found.cosine, 1)
    assert found.updates.min() > 0.01


def test_texts_of_one_token_have_no_pairs(make):
    found = analysis.stream_profile(make("pre_ln"), [[5], [7]])
    assert np.isnan(found.token_cosine).all()
    assert np.isfinite(found.cosine).all()


def test_plot(make, ids):
    import matplotlib.pyplot as plt

    found = analysis.stream_profile(make("pre_ln"), ids)
    assert len(found.plot()) == 3
    _, axes = plt.subplots(1, 3)
    assert found.plot(ax=axes)[1] is axes[1]
    stream, _ = axes[0].lines
    np.testing.assert_array_equal(stream.get_ydata(), found.rms)
    with pytest.raises(ValueError, match="3 panels.*Received: 1"):
        found.plot(ax=axes[0])
