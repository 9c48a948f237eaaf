"""The contract that every residual scheme keeps, and the table of their names."""

import inspect
import keyword

import keras

from ..norms import make_norm
from ..spec import check_options, look_up, parse

SCHEMES = {}
# The stack's to set, not the spec's.
STACK_OPTIONS = ("num_sublayers", "per_block", "rate", "epsilon", "norm")


def register(name):
    """Enters a scheme in `SCHEMES`, so that a model can ask for it by name.

    The class is registered with Keras too, so that models which use it can be saved.

    Args:
        name: what `residual=` takes; a Python identifier.

    Returns:
        A class decorator.

    Raises:
        ValueError: if the name is no identifier or another class has it.

    Example:
        ```python
        @register("half")
        class Half(Residual):
            def write(self, state, update, i):
                return state + 0.5 * update
        ```
    """
    if not (isinstance(name, str) and name.isidentifier()) or keyword.iskeyword(name):
        raise ValueError(
            f"A scheme's name must be a Python identifier. Received: name={name!r}"
        )

    def enter(cls):
        holder = SCHEMES.get(name, cls)
        # Running a notebook's cell again defines the same class anew: that is allowed.
        if (holder.__module__, holder.__qualname__) != (
            cls.__module__,
            cls.__qualname__,
        ):
            raise ValueError(
                f"The residual scheme {name!r} is already {holder.__name__}; choose "
                f"another name. Received: {cls.__name__}"
            )
        # By the scheme's name, which is its own: two classes may be called alike.
        cls = keras.saving.register_keras_serializable("residual_keras", name)(cls)
        SCHEMES[name] = cls
        return cls

    return enter


def get(spec, *, num_sublayers, **kwargs):
    """Makes the scheme that `spec` asks for.

    Args:
        spec: `"name"` or `"name(option=value)"`, a `Residual`, or the config dict that
            `keras.saving.serialize_keras_object` makes of one.
        num_sublayers: n, two for every Transformer block.
        **kwargs: `per_block`, `rate`, `epsilon`, `norm`, and `dtype`, `name`, ... of
            the layer.

    Returns:
        A `Residual` for n sublayers. An instance is returned as it is.

    Raises:
        ValueError: if the name or an option is unknown, or an instance was made for
            another number of sublayers.

    Example:
        >>> get("pre_ln", num_sublayers=4).num_sublayers
        4
    """
    if isinstance(spec, dict):
        try:
            spec = keras.saving.deserialize_keras_object(spec)
        except TypeError as error:  # Keras' word for what it cannot make
            raise ValueError(
                "The config of a residual scheme must name a class that was entered "
                "with `residuals.register`, and the arguments of its constructor. "
                f"Received: {spec!r}"
            ) from error
    if isinstance(spec, Residual):
        if spec.num_sublayers != num_sublayers:
            raise ValueError(
                f"A residual scheme serves the stack it was made for, here of "
                f"{num_sublayers} sublayers. Received: {spec.name} with "
                f"num_sublayers={spec.num_sublayers}"
            )
        return spec
    name, options = parse(spec)
    scheme = look_up(SCHEMES, name, "residual scheme")
    check_options(options, scheme_options(name), f"residual scheme {name!r}")
    return scheme(num_sublayers=num_sublayers, **options, **kwargs)


def scheme_options(name):
    """The options of a registered scheme, by name, with their default values.

    Args:
        name: a key of `SCHEMES`.

    Returns:
        A dict from option to default.
    """
    parameters = inspect.signature(SCHEMES[name].__init__).parameters.values()
    return {
        p.name: p.default
        for p in parameters
        if p.name not in ("self", *STACK_OPTIONS) and p.kind is not p.VAR_KEYWORD
    }


class Residual(keras.layers.Layer):
    """How a stack of sublayers carries its representation from one to the next.

    A scheme is four verbs over a state S that only the scheme looks into. With
    sublayers f_0 .. f_{n-1}, and x and y of shape (batch, time, embed_dim):

        S = start(x)
        S = write(S, f_i(read(S, i)), i)    for i = 0 .. n-1
        y = finish(S)

    `read` is pure and, like `finish`, returns a tensor shaped like x; for attention it
    may return three, for query, key and value. Sublayers with an even index are
    attention, those with an odd one feed-forward; where both read the same input
    (`parallel`), the two are one sublayer. A scheme makes its weights in `build`, whose
    `input_shape` is the shape of x.

    This base class is the plain residual x + f(x) of He et al. 2016
    (arXiv:1512.03385), whose state is x itself.

    The stack sets all arguments but a scheme's own options.

    Args:
        num_sublayers: n, two for every Transformer block.
        per_block: sublayers in a block, 2, or 1 where attention and feed-forward read
            the same input and are written as one.
        rate: share of each update that is dropped in training.
        epsilon: of the scheme's own norms.
        norm: their kind, see `make_norm`.
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: if `num_sublayers` or `epsilon` is not a positive number, or
            `per_block` is 1 for a scheme that treats the two sublayers differently.
    """

    final_norm = False  # does a stack need a norm after `finish`? The stack owns it.
    joins_sublayers = True  # may attention and feed-forward be one sublayer?
    watch = None  # what an analysis does with the weights that are shown

    def __init__(
        self,
        num_sublayers,
        per_block=2,
        rate=0.0,
        epsilon=1e-6,
        norm="layer_norm",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not isinstance(num_sublayers, int) or num_sublayers < 1:
            raise ValueError(
                "num_sublayers must be a positive number. "
                f"Received: num_sublayers={num_sublayers!r}"
            )
        if epsilon <= 0:
            raise ValueError(f"epsilon must be positive. Received: epsilon={epsilon}")
        if per_block not in (1, 2) or (per_block == 1 and not self.joins_sublayers):
            raise ValueError(
                "A block has two sublayers, or one where attention and feed-forward "
                "read the same input (parallel=True), which not every scheme allows. "
                f"Received: {type(self).__name__} with per_block={per_block!r}"
            )
        make_norm(norm)  # an unknown kind is an error here, not when it is built
        self.num_sublayers = num_sublayers
        self.per_block = per_block
        self.epsilon = epsilon
        self.norm = norm
        self.dropout = keras.layers.Dropout(rate, dtype=self.dtype_policy)

    def start(self, x):
        """The state before the first sublayer."""
        return x

    def read(self, state, i):
        """The input of sublayer i, (batch, time, embed_dim)."""
        return state

    def write(self, state, update, i):
        """The state after sublayer i gave `update`."""
        return state + update

    def finish(self, state):
        """What the stack returns, (batch, time, embed_dim)."""
        return state

    def exit(self, state, update, i):
        """What `finish` would return were sublayer i, which gave `update`, the last.

        A scheme whose `write` prepares for the next sublayer says so itself.
        """
        return self.finish(self.write(state, update, i))

    def show(self, i, name, weights, *over):
        """Shows weights that the scheme mixes by to an analysis, if one watches.

        Args:
            i: the sublayer that is read or written with them; n for `finish`.
            name: what the scheme's equation calls them.
            weights: a tensor, (*over) or (batch, time, *over), or a function that makes
                it.
            *over: what its own axes run over: "channel", "stream", "source", ...
        """
        if self.watch is not None:
            self.watch(i, name, weights() if callable(weights) else weights, over)

    def drop(self, update):
        """What the sublayer's output undergoes before `write`: dropout.

        A scheme whose source drops elsewhere returns `update` and calls `self.dropout`
        there, so that dropout always falls once.
        """
        return self.dropout(update)

    def init_gain(self, i, weight):
        """What multiplies the initial value of a kernel of sublayer i.

        Args:
            i: the sublayer's index.
            weight: one of query, key, value, output, ff_in, ff_out.

        Returns:
            A float.
        """
        return 1.0

    def sublayer_options(self, i):
        """Constructor arguments that the scheme asks of sublayer i, as a dict."""
        return {}

    @property
    def decayed(self):
        """The scheme's matrices that weight decay applies to; all else is spared."""
        return []

    def embedding_initializer(self, width):
        """How the token embedding starts, for a scheme that says so; else None.

        Args:
            width: embed_dim.

        Returns:
            A `keras.initializers.Initializer`, or None.
        """

    @property
    def num_blocks(self):
        """The number of Transformer blocks that the sublayers make up."""
        return -(-self.num_sublayers // self.per_block)

    def calibrate(self, run):
        """Sets what a scheme reads off one batch before training; most read nothing.

        Args:
            run: a function that sends the batch through the stack once, eagerly.
        """

    def add_exact(self, name, shape, initializer):
        """A weight that half precision leaves as it is, such as a coefficient."""
        return self.add_weight(shape, initializer, name=name, autocast=False)

    def add_vectors(self, name, input_shape, value):
        """An exact vector as wide as the stream for each sublayer, full of `value`."""
        start = keras.initializers.Constant(value)
        return [
            self.add_exact(f"{name}_{i}", input_shape[-1:], start)
            for i in range(self.num_sublayers)
        ]

    def add_norms(self, count, input_shape, name="norm", **kwargs):
        """`count` built norms over the last axis; `kwargs` are of the norm's layer."""
        norms = []
        for i in range(count):
            norm = make_norm(
                self.norm,
                self.epsilon,
                dtype=self.dtype_policy,
                name=f"{name}_{i}",
                **kwargs,
            )
            norm.build(input_shape)
            norms.append(norm)
        return norms
