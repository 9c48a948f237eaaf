"""Libraries that write to standard error what nobody asked for."""

import contextlib
import os
import sys
import tempfile


@contextlib.contextmanager
def stderr_kept(show_if_failed):
    """Keeps back what anything in this process writes to standard error.

    Args:
        show_if_failed: whether it is written after all if an exception ends the block.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        stderr = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            if show_if_failed:
                kept.seek(0)
                os.write(stderr, kept.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
