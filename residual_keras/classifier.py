"""ids -> embedding -> encoder -> pooling -> logits, as one functional model."""

import inspect

import keras

from . import residuals
from .embedding import ClassToken, TokenAndPositionEmbedding, WordDropout
from .encoder import TransformerEncoder
from .fragments import Fragments
from .norms import make_norm
from .optimization import spare
from .pooling import POOLINGS
from .spec import check_positive, look_up


def build_classifier(
    vocab_size,
    num_classes,
    *,
    residual="pre_ln",
    num_layers=2,
    embed_dim=96,
    num_heads=4,
    ff_dim=None,
    max_len=512,
    rate=0.1,
    positions="learned",
    embedding_norm=None,
    pooling="mean_max",
    word_rate=0.0,
    word_rate_min_len=0,
    fragment_rate=0.0,
    fragment_rate_min_len=0,
    dtype=None,
    name="classifier",
    **kwargs,
):
    """Builds a text classifier around one residual scheme.

    Args:
        vocab_size: number of token ids; 0 is padding and 1 the unknown token.
        num_classes: number of logits; 1 gives the single logit of a yes-or-no question.
        residual: the scheme, "name" or "name(option=value)".
        num_layers: number of Transformer blocks.
        embed_dim: width of the stream.
        num_heads: number of attention heads in each block.
        ff_dim: width of the feed-forward networks' hidden layer; None: 4 embed_dim.
        max_len: number of tokens in the longest text; a longer one is an error with
            learned positions and no trouble with others.
        rate: share that is dropped of each sublayer's output, of the embedding and of
            the pooled vector, in training.
        positions: "learned", "sinusoidal", "rotary" or "none".
        embedding_norm: the kind of a norm between embedding and encoder, such as
            "layer_norm" (Devlin et al. 2018, arXiv:1810.04805), see `make_norm`; None
            for none. Its epsilon is the encoder's.
        pooling: "mean", "max", "mean_max", "attention", or "cls" (the vector of a
            learned token that is put before the text).
        word_rate: share of the words that are read as unknown in training.
        word_rate_min_len: number of tokens; a text of fewer keeps all its words.
        fragment_rate: share of the texts that are cut to a few words in training.
        fragment_rate_min_len: number of tokens; a text of fewer is never cut.
        dtype: the policy of embedding and encoder, such as "mixed_bfloat16"; None: the
            global one. Pooling and head are float32 under every policy.
        name: of the model.
        **kwargs: of `TransformerEncoder`: norm, parallel, stochastic_depth, key_dim,
            activation, attention_rate, ff_rate, causal, qk_norm, value_residual,
            score_residual, head_scale, kernel_initializer, epsilon, final_norm,
            recompute.

    Returns:
        A `Classifier`: token ids, int32 (batch, time) -> logits (batch, num_classes),
        float32. Its layers are named fragments, word_dropout, embedding, class_token,
        embedding_norm, embedding_dropout, encoder, pooling, pooling_dropout and
        logits; those that the arguments ask for.

    Raises:
        ValueError: if an argument is out of range or a name unknown.

    Example:
        >>> model = build_classifier(vocab_size=20_000, num_classes=4)
        >>> model.compile("adam")  # with the loss and metrics that fit the head
        >>> model(keras.ops.ones((2, 7), "int32")).shape
        TensorShape([2, 4])
    """
    check_positive(num_classes=num_classes, num_layers=num_layers)
    pool = look_up(POOLINGS, pooling, "pooling")
    known = {**_arguments(build_classifier), **_arguments(TransformerEncoder)}
    del known["rotary"]  # `positions` says so
    for argument in kwargs:
        look_up(known, argument, "argument")

    ids = keras.Input((None,), dtype="int32", name="token_ids")
    x = ids
    if fragment_rate:
        x = Fragments(fragment_rate, fragment_rate_min_len, name="fragments")(x)
    if word_rate:
        x = WordDropout(word_rate, word_rate_min_len, name="word_dropout")(x)
    # How the tokens start may be the scheme's to say; the encoder makes its own later.
    per_block = 1 if kwargs.get("parallel") else 2
    scheme = residuals.get(
        residual, num_sublayers=per_block * num_layers, per_block=per_block
    )
    x = TokenAndPositionEmbedding(
        vocab_size,
        max_len,
        embed_dim,
        positions,
        scheme.embedding_initializer(embed_dim),
        dtype=dtype,
        name="embedding",
    )(x)
    if pooling == "cls":
        x = ClassToken(dtype=dtype, name="class_token")(x)
    if embedding_norm is not None:
        epsilon = kwargs.get("epsilon", 1e-6)
        x = make_norm(embedding_norm, epsilon, dtype=dtype, name="embedding_norm")(x)
    x = keras.layers.Dropout(rate, dtype=dtype, name="embedding_dropout")(x)
    x = TransformerEncoder(
        num_layers,
        embed_dim,
        num_heads,
        4 * embed_dim if ff_dim is None else ff_dim,
        rate,
        residual=residual,
        rotary=positions == "rotary",
        dtype=dtype,
        name="encoder",
        **kwargs,
    )(x)
    # Half precision would round close calls away.
    x = pool(dtype="float32", name="pooling")(x)
    x = keras.layers.Dropout(rate, dtype="float32", name="pooling_dropout")(x)
    logits = keras.layers.Dense(num_classes, dtype="float32", name="logits")(x)
    return Classifier(ids, logits, name=name)


def _arguments(function):
    """The named arguments of a function or a class, as a dict."""
    parameters = inspect.signature(function).parameters
    return {n: p for n, p in parameters.items() if p.kind is not p.VAR_KEYWORD}


@keras.saving.register_keras_serializable("residual_keras")
class Classifier(keras.Model):
    """A functional model from ids to logits that compiles with the loss that fits it.

    `compile` needs an optimizer only. One logit: binary cross-entropy, and accuracy at
    a threshold of 0, where a logit changes sides. Several: sparse categorical
    cross-entropy over integer labels. A loss that expects probabilities would train
    badly without a word, so it is refused. An optimizer that decays weights is told to
    leave `no_decay(model)` alone, and under "mixed_float16" the loss is scaled, here
    and after loading.

    Ragged ids (`tf.RaggedTensor`) are padded first.

    Example:
        >>> model = build_classifier(vocab_size=100, num_classes=1)
        >>> model.compile("adam")
        >>> model.loss.name
        'binary_crossentropy'
    """

    def compile(self, optimizer="adam", loss=None, metrics=None, **kwargs):
        """As `keras.Model.compile`, with a loss and an accuracy that fit the head.

        Args:
            optimizer: as in Keras.
            loss: None for the one that fits, or another that takes logits.
            metrics: None for the accuracy that fits, or as in Keras; "accuracy" means
                the one that fits.
            **kwargs: as in Keras.

        Raises:
            ValueError: if the loss takes probabilities.
        """
        loss = self.default_loss() if loss is None else loss
        check_loss(loss)
        metrics = "accuracy" if metrics is None else metrics
        if not isinstance(metrics, dict):
            metrics = metrics if isinstance(metrics, (list, tuple)) else [metrics]
            names = ("accuracy", "acc")
            metrics = [self.accuracy() if m in names else m for m in metrics]
        optimizer = keras.optimizers.get(optimizer)
        spare(optimizer, self)
        if kwargs.get("auto_scale_loss", True) and self.is_half_precise():
            optimizer = scale_loss(optimizer)
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)
        self.jit_choice = kwargs.get("jit_compile", "auto")

    def is_half_precise(self):
        """Whether a layer computes in float16, where small gradients vanish."""
        return any(layer.dtype_policy.name == "mixed_float16" for layer in self.layers)

    def get_compile_config(self):
        if not self.compiled:
            return None
        # Keras would save what "auto" came to on this machine.
        return {**super().get_compile_config(), "jit_compile": self.jit_choice}

    def compile_from_config(self, config):
        options = {
            k: keras.saving.deserialize_keras_object(v) for k, v in config.items()
        }
        self.compile(**options)
        self.optimizer.build(self.trainable_variables)

    def calibrate(self, batches, texts=None):
        """Sets what is read off texts before training: here by the scheme, if it does.

        Args:
            batches: pairs of ids, int32 (batch, time), and labels.
            texts: all texts' ids, labelled or not, an iterable of 1D integer arrays;
                None: those of the batches.
        """
        ids, _ = next(iter(batches))
        scheme = self.get_layer("encoder").residual
        scheme.calibrate(lambda: self(ids, training=False))

    def call(self, inputs, training=None, mask=None):
        if hasattr(inputs, "to_tensor"):  # ragged
            inputs = inputs.to_tensor()
        return super().call(inputs, training=training, mask=mask)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        return super().compute_loss(x, ranked(y), y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, ranked(y), y_pred, sample_weight)

    @property
    def num_classes(self):
        """The number of logits."""
        return self.output_shape[-1]

    def default_loss(self):
        """The cross-entropy between the logits and integer labels."""
        if self.num_classes == 1:
            return keras.losses.BinaryCrossentropy(from_logits=True)
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def accuracy(self):
        """The share of right answers, from logits and integer labels."""
        if self.num_classes == 1:
            return keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)
        return keras.metrics.SparseCategoricalAccuracy(name="accuracy")


def scale_loss(optimizer):
    """An optimizer that scales the loss up, and the gradients down again."""
    scaler = keras.optimizers.LossScaleOptimizer
    return optimizer if isinstance(optimizer, scaler) else scaler(optimizer)


def ranked(labels):
    """Labels (batch,) where a graph met them as (batch, 1) too and knows no rank."""
    if getattr(labels.shape, "rank", 1) is None:
        return keras.ops.reshape(labels, (-1,))
    return labels


def check_loss(loss):
    """Raises ValueError if a loss is known to expect probabilities."""
    resolved = keras.losses.get(loss)
    if isinstance(resolved, keras.losses.Loss):
        expects_logits = resolved.get_config().get("from_logits", True)
    else:  # Keras' own functions take probabilities unless told otherwise
        name = f"{resolved.__module__}.{getattr(resolved, '__name__', '')}"
        expects_logits = not (
            name.startswith("keras.") and name.endswith("crossentropy")
        )
    if not expects_logits:
        raise ValueError(
            "The model gives logits, so its loss must take logits. "
            f"Received: loss={loss!r}. Leave loss out, or pass an instance with "
            "from_logits=True."
        )
