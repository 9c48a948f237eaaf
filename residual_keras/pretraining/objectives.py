"""The objectives by name."""

import inspect

from ..spec import check_options, look_up, parse
from .masked import Masked
from .next_token import NextToken
from .replaced import Replaced

OBJECTIVES = {"next_token": NextToken, "masked": Masked, "replaced": Replaced}


def get(spec, counts):
    """The objective that a spec names.

    Args:
        spec: such as `"next_token"` or `"masked(rate=0.2, samples=None)"`.
        counts: how often each word stands in the texts, (words,).

    Returns:
        An `Objective`.

    Raises:
        ValueError: if there is none of that name, or an option is unknown or out of
            range.

    Example:
        >>> get("masked(rate=0.2)", np.ones(9)).rate
        0.2
    """
    name, options = parse(spec)
    kind = look_up(OBJECTIVES, name, "objective")
    known = set(inspect.signature(kind).parameters) - {"counts", "kwargs"}
    check_options(options, known, f"objective {name!r}")
    return kind(counts, name="objective", **options)
