"""The verbs that tell what there is."""

import json
import os
import sys

from .loading import quiet_start


def presets(args):
    """List the trained models that come with the package."""
    from ..presets import shelf

    names = shelf.list_presets(args.pattern)
    if names:
        print(shelf.table(names))
    elif shelf.list_presets():
        raise ValueError(shelf.unknown(args.pattern))
    else:
        print("This version comes with no presets.", file=sys.stderr)


def schemes(args):
    """List the residual schemes, or tell all that is known of one."""
    with quiet_start():
        from .. import catalogue

    if args.name:
        told = catalogue.describe(args.name.split("(")[0].strip())
    else:
        told = catalogue.schemes()
    if args.format == "json":
        plain = told.to_dict() if args.name else [scheme.to_dict() for scheme in told]
        print(json.dumps(plain, indent=2, ensure_ascii=False, default=repr))
    else:
        print(told if args.name else catalogue.table(told, line_width(sys.stdout)))


def doctor(args):
    """Tell what is there and what is missing: versions, devices, folders, data."""
    from ..doctor import report

    return report(network=args.network)


def line_width(file):
    """The characters that a line of a terminal holds; None where nothing is cut."""
    return os.get_terminal_size(file.fileno()).columns if file.isatty() else None
