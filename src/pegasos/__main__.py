"""``python -m pegasos`` is the command ``pegasos``."""

import sys

from pegasos.cli import main

sys.exit(main())
