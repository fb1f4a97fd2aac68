"""`python -m bench.faults [FAULT ...]`."""

import sys

from bench.faults import main

sys.exit(main())
