"""The learned mixing as arrays, averaged over real tokens: all texts or one."""

import numpy as np
import pytest
from keras import ops

from residual_keras import analysis
from residual_keras.analysis.recording import record


def test_connections_of_a_model_are_those_of_the_equation(make, ids, reference):
    model = make("hyper_connections(streams=3)")
    found = analysis.mixing_weights(model, ids)
    [one], _ = record(model, ops.convert_to_tensor(ids))
    residual = one.stack.residual
    weights = {w.path.rsplit("/", 1)[1]: w.numpy() for w in residual.weights}
    h = np.stack([one.x.numpy()] * 3, axis=-2)
    for i, (_, update) in enumerate(one.writes):
        _, mix, share = reference.connections(h, i, weights, residual.epsilon)
        np.testing.assert_allclose(found.tokens["A"][i], mix, atol=1e-9)
        mean = [m for m, real in zip(mix, ids != 0, strict=True) for m in m[real]]
        np.testing.assert_allclose(found.mean("A")[i], np.mean(mean, 0), atol=1e-9)
        third = np.mean(mix[2][ids[2] != 0], 0)
        np.testing.assert_allclose(found.mean("A", text=2)[i], third, atol=1e-9)
        h = mix.swapaxes(-1, -2) @ h + share * update.numpy()[..., None, :]
    assert found.places == {"A": list("0123"), "b": list("0123"), "a": list("123")}
    assert found.over["A"] == ("from stream", "to stream")


def test_attention_along_depth_sums_to_one(make, ids):
    found = analysis.mixing_weights(make("attn_res"), ids)
    assert [len(a) for a in found.mean("a")] == [1, 2, 3, 4, 5]
    for weights in (*found.tokens["a"], *found.mean("a", text=1)):
        np.testing.assert_allclose(weights.sum(-1), 1)
    assert found.places["a"] == ["0", "1", "2", "3", "end"]


def test_manifold_keeps_the_mean_of_streams(make, ids):
    found = analysis.mixing_weights(make("mhc"), ids)
    for matrix in found.mean("R"):
        assert matrix.min() > 0
        np.testing.assert_allclose(matrix.sum(0), 1, atol=1e-6)  # of what enters one
        np.testing.assert_allclose(matrix.sum(1), 1, atol=1e-2)


def test_weights_that_all_tokens_share(make, ids):
    model = make("layer_scale")
    found = analysis.mixing_weights(model, ids)
    gammas = model.get_layer("encoder").residual.gammas
    for mean, gamma in zip(found.mean("g", text=0), gammas, strict=True):
        np.testing.assert_allclose(mean, gamma, rtol=1e-6)


def test_names_are_known_and_so_are_texts(make, ids):
    found = analysis.mixing_weights(make("layer_scale"), ids)
    with pytest.raises(ValueError, match=r"one of \['g'\]. Received: name='a'"):
        found.mean("a")
    with pytest.raises(ValueError, match="below 5. Received: text=5"):
        found.mean("g", text=5)
    nothing = analysis.mixing_weights(make("pre_ln"), ids)
    assert nothing.names == []
    with pytest.raises(ValueError, match="no learned weights"):
        nothing.plot()


@pytest.mark.parametrize(
    "residual", ["rezero", "highway", "attn_res", "hyper_connections", "mudd"]
)
def test_plot(residual, make, ids):
    found = analysis.mixing_weights(make(residual), ids)
    axes = np.ravel(found.plot(text=1))
    assert [one.get_title() for one in axes] == found.names
    if residual == "attn_res":
        [image] = axes[0].images
        drawn = np.ma.filled(image.get_array(), np.nan)
        for k, weights in enumerate(found.mean("a", text=1)):
            np.testing.assert_allclose(drawn[: k + 1, k], weights)
            assert np.isnan(drawn[k + 1 :, k]).all()


def test_a_scheme_of_one_s_own_shows_what_it_likes(registry, make, ids):
    from residual_keras import residuals

    @residuals.register("shown")
    class Shown(residuals.Residual):
        def write(self, state, update, i):
            self.show(i, "halves", lambda: ops.ones(2) / (i + 1), "half")
            return state + update

    found = analysis.mixing_weights(make("shown"), ids)
    np.testing.assert_allclose(found.mean("halves")[3], [0.25, 0.25])
