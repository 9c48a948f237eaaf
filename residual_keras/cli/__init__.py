"""The command line: a verb each for what one does with a model.

TensorFlow is imported inside the verbs, so that `--help` answers at once.
"""

import os
import sys

from .grammar import parser
from .training import INTERRUPTED

__all__ = ["main", "parser"]


def main(arguments=None):
    """Runs the command line; returns its exit status.

    0: done. 2: the input cannot be used, said in one line. 130: interrupted.
    """
    args = parser().parse_args(arguments)
    try:
        return args.verb(args) or 0
    except ValueError as error:
        print(f"residual-keras: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
