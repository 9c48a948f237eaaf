"""What every gradient written by hand goes through."""

from keras import ops

from residual_keras.gradients import with_gradient


def test_the_gradient_is_the_one_that_was_given(rng, assert_same_gradients):
    """To the second order, where both arguments' gradients hang on both."""

    def product(x, y):
        return x * y, lambda of_product: (of_product * y, of_product * x)

    args = map(ops.convert_to_tensor, rng.normal(size=(2, 3, 5)))
    assert_same_gradients(with_gradient(product), lambda x, y: x * y, *args, atol=1e-12)
