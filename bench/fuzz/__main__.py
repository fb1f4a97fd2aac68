"""Run the fuzzer and print a table."""

import sys

from bench.fuzz.command import main

sys.exit(main())
