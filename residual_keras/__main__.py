"""`python -m residual_keras` is `residual-keras`."""

import sys

from .cli import main

sys.exit(main())
