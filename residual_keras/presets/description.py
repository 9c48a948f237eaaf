"""What is known of a preset, read from its preset.json without TensorFlow."""

import dataclasses

from . import files, shelf


@dataclasses.dataclass(frozen=True)
class Preset:
    """What is known of one preset; what is not known is None or empty.

    `str()` of it is for people to read.

    Attributes:
        name: what it was saved as.
        scheme: its residual scheme, as `residual=` takes it.
        size: which of `SIZES` it is, or None.
        labels: its label names.
        parameters: how many weights it has.
        megabytes: what its files take on disk.
        data: what it was trained on.
        licence: of the data.
        command: what made it.
        metrics: what `measure` found on texts that it was not trained on, a dict.
        papers: who published the scheme, and where.
    """

    name: str
    scheme: str | None
    size: str | None
    labels: list
    parameters: int
    megabytes: float
    data: str | None
    licence: str | None
    command: str | None
    metrics: dict
    papers: list

    def __str__(self):
        shown = dataclasses.asdict(self)
        shown["parameters"] = f"{self.parameters:,}"
        shown["megabytes"] = f"{self.megabytes:.1f}"
        shown["labels"] = ", ".join(self.labels)
        shown["metrics"] = ", ".join(
            f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:.4g}"
            for name, value in self.metrics.items()
            if isinstance(value, (int, float))
        )
        shown["papers"] = "; ".join(self.papers)
        lines = [f"    {key:10}  {text}" for key, text in shown.items() if text]
        return "\n".join([self.name, *lines[1:]])


def describe_preset(preset):
    """What is known of a preset.

    Args:
        preset: the name of one of the package, or the path of a folder.

    Returns:
        A `Preset`; print it.

    Raises:
        ValueError: if there is none of that name, or it is damaged.

    Example:
        >>> print(describe_preset("presets/mine"))  # doctest: +SKIP
    """
    folder, said = shelf.find(preset)
    made, facts = said["made"], said["facts"]
    return Preset(
        name=said["name"],
        scheme=made.get("residual"),
        size=facts.get("size"),
        labels=made["labels"],
        parameters=made["parameters"],
        megabytes=files.size(folder) / 1e6,
        data=facts.get("data"),
        licence=facts.get("licence"),
        command=facts.get("command"),
        metrics=facts.get("metrics", {}),
        papers=made["papers"],
    )
