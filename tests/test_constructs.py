"""The page of constructs says what the code does."""

from __future__ import annotations

from pathlib import Path

from tests.constructs import page


def test_the_page_says_how_each_construct_is_maintained() -> None:
    written = Path(__file__).parents[1] / "docs" / "reference" / "maintenance.md"
    assert written.read_text(encoding="utf-8") == page(), (
        "write it anew: python -m tests.constructs > docs/reference/maintenance.md"
    )
