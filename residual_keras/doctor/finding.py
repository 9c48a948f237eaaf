"""What was found, and what to do about it."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        about: what it is, in a word or two.
        found: what is there.
        do: what changes that, where one might want to.
        wrong: whether training fails, or does not use what the machine has.
    """

    about: str
    found: str
    do: str = ""
    wrong: bool = False

    def __str__(self):
        mark = "WRONG" if self.wrong else "note" if self.do else "ok"
        advice = f"\n{'':25} -> {self.do}" if self.do else ""
        return f"{mark:5} {self.about:19} {self.found}{advice}"
