"""Libraries: what the package asks for, and what is installed."""

import importlib
from importlib import metadata

from ..quiet import stderr_kept
from .finding import Finding


def check_libraries(package="residual_keras"):
    """Yields what is there of a package's requirements, and of its extras'."""
    try:
        about = metadata.metadata(package)
        requirements = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        about, requirements = None, []
        yield Finding(
            "requirements",
            "unknown, as the package runs without having been installed",
            "pip install .",
            wrong=True,
        )
    for requirement in asked_for(requirements, ""):
        yield check_library(requirement)
    if installed("tensorflow") and installed("tensorflow-cpu"):
        yield Finding(
            "tensorflow",
            "tensorflow and tensorflow-cpu are both there, and write the same files",
            "pip uninstall -y tensorflow tensorflow-cpu && pip install tensorflow",
            wrong=True,
        )
    for extra in about.get_all("Provides-Extra") or [] if about else []:
        missing = [r for r in asked_for(requirements, extra) if not satisfied(r)]
        if missing:
            yield Finding(f"[{extra}]", "is not complete", pip_install(*missing))
        else:
            yield Finding(f"[{extra}]", "is there")


def check_library(requirement):
    """The `Finding` on a library that the package cannot do without.

    Args:
        requirement: a `packaging.requirements.Requirement`.
    """
    name, version = requirement.name, installed(requirement.name)
    if not version:
        return Finding(name, "is not installed", pip_install(requirement), wrong=True)
    if not satisfied(requirement):
        return Finding(
            name,
            f"{version}, which is not {requirement.specifier}",
            pip_install(requirement),
            wrong=True,
        )
    try:
        with stderr_kept(show_if_failed=False):
            module = importlib.import_module(name.replace("-", "_"))
    except Exception as error:  # whatever a broken installation raises
        lost = getattr(error, "name", None)
        advice = (
            f"pip install {lost}" if lost else f"{pip_install(requirement)} --force"
        )
        if name == "keras":
            advice += ", or set KERAS_BACKEND=tensorflow"
        reason = str(error).strip().split("\n")[0]
        return Finding(
            name,
            f"{version} cannot be imported: {type(error).__name__}: {reason}",
            advice,
            wrong=True,
        )
    if name == "keras":
        version += f", backend {module.config.backend()}, {module.config.floatx()}"
    return Finding(name, version)


def asked_for(requirements, extra):
    """The `Requirement`s among strings that an extra adds, or with "" the core's."""
    from packaging.requirements import Requirement

    for requirement in map(Requirement, requirements):
        marker, requirement.marker = requirement.marker, None
        if marker is None:
            wanted = not extra
        else:
            core = marker.evaluate({"extra": ""})
            wanted = marker.evaluate({"extra": extra}) and (not extra or not core)
        if wanted:
            yield requirement


def satisfied(requirement):
    """Whether a `Requirement` is installed, with its own extras."""
    version = installed(requirement.name)
    if not version or not requirement.specifier.contains(version, prereleases=True):
        return False
    nested = metadata.requires(requirement.name) or []
    return all(
        satisfied(other)
        for extra in requirement.extras
        for other in asked_for(nested, extra)
    )


def installed(name):
    """The version of a distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def pip_install(*requirements):
    """The command that installs requirements."""
    return " ".join(["pip install", *(f"'{r}'" for r in requirements)])
