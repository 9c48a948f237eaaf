"""Converters tell much that is of no use to who called them."""

import contextlib
import logging


@contextlib.contextmanager
def quiet():
    """Keeps back the converters' warnings; errors are raised, not logged."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)
