"""How the residual stream is carried past the sublayers, a file a kind of state."""

from . import gated, geometric, history, pair, scaled, single, streams
from .base import SCHEMES, Residual, get, register, scheme_options

__all__ = [
    "SCHEMES",
    "Residual",
    "gated",
    "geometric",
    "get",
    "history",
    "pair",
    "register",
    "scaled",
    "scheme_options",
    "single",
    "streams",
]
