"""What is known of each residual scheme, read from where it is written: its docstring.

A scheme's docstring begins with its equation; free paragraphs follow; then those that
start with `When:`, `When not:` and `Source:`; then `Args:` and the like. Its kind of
state is what the first line of its module says. Whatever is not said is empty.
"""

import dataclasses
import inspect
import itertools
import re
import sys
import textwrap

from . import residuals
from .spec import look_up

# The modules of `residuals`, from one tensor to many; a user's own schemes come last.
KINDS = ("single", "scaled", "geometric", "gated", "pair", "streams", "history")
OWN = "its own"
# The paragraphs of a docstring that start with a label, and where they are kept.
LABELS = {"When": "when", "When not": "when_not", "Source": "source"}


@dataclasses.dataclass(frozen=True)
class Scheme:
    """One residual scheme, as it is written about.

    `str()` of it is all that is known, for people to read.

    Attributes:
        name: its key in `residuals.SCHEMES`.
        options: its options, a dict from name to default value.
        kind: the state that it carries and how, "its own" for a user's scheme.
        equation: what becomes of the stream x at a sublayer f.
        about: the paragraphs on symbols, initial values and weights added.
        when: when to use it.
        when_not: when not.
        source: who published it, and where.
        meanings: what each option means, a dict from name to text.
    """

    name: str
    options: dict
    kind: str = OWN
    equation: str = ""
    about: str = ""
    when: str = ""
    when_not: str = ""
    source: str = ""
    meanings: dict = dataclasses.field(default_factory=dict)

    @property
    def spec(self):
        """What `residual=` takes, every option at its default."""
        named = ", ".join(f"{key}={value}" for key, value in self.defaults.items())
        return f"{self.name}({named})" if named else self.name

    @property
    def defaults(self):
        """The options with their defaults as they are written, "..." for none."""
        none = inspect.Parameter.empty
        return {k: "..." if v is none else repr(v) for k, v in self.options.items()}

    @property
    def state(self):
        """The kind of state in a few words."""
        return self.kind.split(",")[0]

    @property
    def in_short(self):
        """When to use it, up to the first stop."""
        return re.split(r"[,;:.](?:\s|$)", self.when)[0]

    def to_dict(self):
        """All of it by name, the spec and the state in a few words too."""
        return {**dataclasses.asdict(self), "spec": self.spec, "state": self.state}

    def __str__(self):
        parts = [self.spec, f"    {self.equation or 'It has no docstring.'}"]
        parts += [self.about] if self.about else []
        parts.append(f"State: {self.kind}.")
        for label, field in LABELS.items():
            if text := getattr(self, field):
                parts.append(textwrap.fill(f"{label}: {text}", 88))
        if self.options:
            lines = [
                f"    {key}={value}  {self.meanings.get(key, '')}".rstrip()
                for key, value in self.defaults.items()
            ]
            parts.append("\n".join(["Options:", *lines]))
        return "\n\n".join(parts)


def schemes():
    """Every registered scheme, a list of `Scheme`, those of one kind side by side."""

    def rank(name):
        home, _, module = residuals.SCHEMES[name].__module__.rpartition(".")
        return KINDS.index(module) if home == residuals.__name__ else len(KINDS)

    return [describe(name) for name in sorted(residuals.SCHEMES, key=rank)]


def table(found, width=None):
    """A line a scheme, under the kind of its state: spec, equation, when in short.

    Args:
        found: a list of `Scheme`, those of one kind side by side.
        width: where lines are cut, the options left out to save room; None: nowhere.

    Returns:
        A string.
    """
    lines = []
    for kind, group in itertools.groupby(found, lambda scheme: scheme.kind):
        rows = [
            (
                s.name + "(...)" * bool(s.options) if width else s.spec,
                s.equation,
                s.in_short and f"When: {s.in_short}",
            )
            for s in group
        ]
        spec, equation, _ = (
            max(map(len, column)) for column in zip(*rows, strict=True)
        )
        lines += ["", f"State: {kind}"]
        lines += [f"  {a:{spec}}  {b:{equation}}  {c}" for a, b, c in rows]
    return "\n".join(line[:width].rstrip() for line in lines[1:])


def describe(name):
    """What is known of one scheme.

    Args:
        name: a key of `residuals.SCHEMES`.

    Returns:
        A `Scheme`.

    Raises:
        ValueError: if no scheme has that name.

    Example:
        >>> describe("pre_ln").state
        'one tensor'
    """
    scheme = look_up(residuals.SCHEMES, name, "residual scheme")
    options = residuals.scheme_options(name)
    return Scheme(
        name, options, kind_of(scheme), **read_docstring(scheme.__doc__, options)
    )


def kind_of(scheme):
    """What the module of a scheme says of the state; "its own" outside `residuals`."""
    if not scheme.__module__.startswith(f"{residuals.__name__}."):
        return OWN
    said = paragraphs(sys.modules[scheme.__module__].__doc__)[0]
    return one_line(said).removeprefix("Schemes whose state is ").rstrip(".")


def read_docstring(docstring, options=()):
    """The parts of a scheme's docstring, as the fields of a `Scheme`.

    Args:
        docstring: it, or None.
        options: the names whose entries in `Args:` are read.

    Returns:
        A dict; a part that is not there is left out.
    """
    equation, *rest = paragraphs(docstring)
    found = {"equation": one_line(equation)}
    about = []
    for text in rest:
        label, _, said = text.partition(":")
        if label in LABELS:
            found[LABELS[label]] = one_line(said)
        elif label == "Args":
            meanings = arguments(said)
            found["meanings"] = {k: v for k, v in meanings.items() if k in options}
        elif label not in ("Raises", "Returns", "Example"):
            about.append(text)
    return {**found, "about": "\n\n".join(about)}


def paragraphs(docstring):
    """What stands between empty lines, the common indentation taken off."""
    return re.split(r"\n\s*\n", inspect.cleandoc(docstring or ""))


def one_line(text):
    """`text` with its line breaks and indentation as single spaces."""
    return " ".join(text.split())


def arguments(text):
    """A dict from name to meaning, of the lines below `Args:`."""
    entries = re.split(r"^ {4}(\*{0,2}\w+): ", text, flags=re.MULTILINE)[1:]
    return {
        name: one_line(meaning)
        for name, meaning in zip(entries[::2], entries[1::2], strict=True)
    }
