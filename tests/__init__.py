"""The tests. Whatever of them runs, its databases have the memory that is asked for (``memory.py``)."""

import os

from tests.memory import use

if "TIDEMARK_TEST_MEMORY" in os.environ:
    use(os.environ["TIDEMARK_TEST_MEMORY"])
