"""python -m benchmarks.learn [options], the same as `recollect bench learn`."""

import sys

from benchmarks.learn.command import main

sys.exit(main())
