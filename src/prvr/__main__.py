"""``python -m prvr`` and ``torchrun -m prvr``: the same as the ``prvr`` command."""

import sys

from prvr.cli import main

sys.exit(main())
