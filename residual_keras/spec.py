"""Names that carry their options: "name" or "name(option=value)"."""

import ast
import difflib
from numbers import Integral


def parse(spec):
    """Splits a spec into its name and a dict of options.

    The values are Python literals, parsed and never evaluated, so no code runs.

    Args:
        spec: a string such as `"pre_ln"` or `"attention_residual(dropout=0.1)"`.

    Returns:
        `(name, options)`.

    Raises:
        ValueError: if `spec` is not a string of that form.

    Example:
        >>> parse("reviews(depth=3)")
        ('reviews', {'depth': 3})
    """
    try:
        node = ast.parse(str.strip(spec), mode="eval").body
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        options = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
        named_once = len(options) == len(call.keywords) and None not in options
        if not isinstance(call.func, ast.Name) or call.args or not named_once:
            raise ValueError
        return call.func.id, options
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        # The last two are Python's answer to a text that is nested too deeply.
        raise ValueError(
            "Write a spec as name or name(option=value), with literal values. "
            f"Received: {spec!r}"
        ) from None


def look_up(table, name, what):
    """`table[name]`, or an error that says what could have been meant.

    Args:
        table: a dict from names.
        name: the name asked for.
        what: what it names, such as `"pooling"`.

    Returns:
        The entry.

    Raises:
        ValueError: if the name is not in the table.

    Example:
        >>> look_up({"mean": 1}, "mean", "pooling")
        1
    """
    if name not in table:
        raise ValueError(f"No {what} {name!r}. {nearest(name, table)}")
    return table[name]


def check_options(options, known, owner):
    """Raises ValueError if one of a spec's options is not known.

    Args:
        options: a dict from names to values, as `parse` returns.
        known: the names that there are.
        owner: whose options they are, such as `"classifier 'latent'"`.

    Example:
        >>> check_options({"rank": 8}, {"rank", "order"}, "classifier 'latent'")
    """
    for name, value in options.items():
        if name not in known:
            raise ValueError(
                f"The {owner} has no option {name!r}. "
                f"{nearest(name, known) if known else 'It has none.'} "
                f"Received: {name}={value!r}"
            )


def check_positive(**numbers):
    """Raises ValueError if one of these is not a whole number, 1 or more.

    Example:
        >>> check_positive(num_heads=4, key_dim=8)
    """
    for name, value in numbers.items():
        if not isinstance(value, Integral) or isinstance(value, bool):
            raise ValueError(
                f"{name} must be a whole number. Received: {name}={value!r}"
            )
        if value < 1:
            raise ValueError(f"{name} must be positive. Received: {name}={value}")


def nearest(name, known):
    """A sentence that names what is known, the nearest first.

    Args:
        name: the string that was not found.
        known: the strings that could have been meant.

    Returns:
        Such as `"Did you mean 'pre_ln'? Known: none, post_ln, pre_ln."`.
    """
    known = sorted(known)
    close = difflib.get_close_matches(str(name), known, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(known)}."
