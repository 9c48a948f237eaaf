"""How the residual stream is carried past the sublayers, a file a kind of state."""

from . import gated, single
from .base import SCHEMES, Residual, get, register, scheme_options

__all__ = [
    "SCHEMES",
    "Residual",
    "gated",
    "get",
    "register",
    "scheme_options",
    "single",
]
