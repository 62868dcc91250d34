"""What a proof finds must not depend on how busy the machine is that runs the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidemark.analysis import relevance, solving, statements


@pytest.fixture(autouse=True, scope="session")
def patience() -> Iterator[None]:
    """Time limits that only a proof that does not end would reach."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solving, "TIME_LIMIT_MILLISECONDS", 5_000)
        patch.setattr(relevance, "MOST_SECONDS", 60.0)
        patch.setattr(statements, "MOST_SECONDS", 60.0)
        yield
