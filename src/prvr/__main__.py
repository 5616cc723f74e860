"""``python -m prvr`` and ``torchrun -m prvr``: the same as the ``prvr`` command."""

import sys

from prvr.processes import import_path

sys.path[:] = import_path()  # `python -m` puts the working folder first; the `prvr` command does not

from prvr.cli import main  # noqa: E402

sys.exit(main())
