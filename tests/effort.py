"""How much the tests try: ``TIDEMARK_TEST`` is ``quick`` (``make test``), ``all`` (the default) or ``long``.

The quick run has every law and every engine, with fewer examples of each law, one kind of Spark database where the full
one has up to three, and one of twelve of the tests that run on Spark. What takes long by its nature is marked ``slow``
and is not in it. The full run has a third of the tests on Spark, another sixth of the conformance suite there, and all
else; the long run has all.
"""

from __future__ import annotations

import os
from typing import Final

LEVELS: Final = {"quick": 0.2, "all": 0.7, "long": 10.0}
"""By how much the budget of examples is multiplied."""
LEVEL: Final = os.environ.get("TIDEMARK_TEST", "all")
if LEVEL not in LEVELS:
    raise ValueError(f"TIDEMARK_TEST is {LEVEL!r}, not one of {', '.join(LEVELS)}")
IS_QUICK: Final = LEVEL == "quick"


def examples(full: int) -> int:
    """How many examples a law has by its level, of so many; a law is never left out."""
    return max(2, round(full * LEVELS[LEVEL]))
