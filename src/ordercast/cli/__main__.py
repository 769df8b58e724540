"""`python -m ordercast.cli`: the command without its installed script."""

import sys

from ordercast.cli import main

sys.exit(main())
