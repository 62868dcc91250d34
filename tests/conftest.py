"""Fixtures shared by all tests. Most tests need no Spark; those that do share one session in each process."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.effort import LEVEL, examples

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("as much as asked", settings.get_profile("default"), max_examples=examples(100))
settings.load_profile("as much as asked")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What starts Spark stays together, so that few workers have a session: one in the quick run, and two in the full
    one, which has more of it than of anything else. The quick run leaves out what is slow, and most tests on Spark; the
    full one leaves out some of them, which the long one has."""
    sessions = 1 if LEVEL == "quick" else 2
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group(f"spark {zlib.crc32(str(item.path).encode()) % sessions}"))
    if LEVEL == "quick" and config.option.markexpr == "":
        _keep(_is_quick, config, items)
    elif LEVEL == "all" and "TIDEMARK_TEST_SPARK" not in os.environ:
        _keep(_fits, config, items)


def _keep(is_kept: Callable[[pytest.Item], bool], config: pytest.Config, items: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not is_kept(item)])
    items[:] = [item for item in items if is_kept(item)]


def _is_quick(item: pytest.Item) -> bool:
    """A test on Spark takes seconds, so that the quick run has one of twelve of them, the same ones each time."""
    if item.get_closest_marker("slow") is not None:
        return False
    return item.get_closest_marker("spark") is None or _number(item) % 12 == 0


def _fits(item: pytest.Item) -> bool:
    """Of the tests on Spark a third, and a sixth of the conformance suite, others than the quick run has: whole, they
    take far longer than all the rest together. Databases of older forms are always opened, and
    lakes on object stores are tried in all ways: there is one module of each."""
    if item.get_closest_marker("spark") is None or "golden" in item.path.parts or "bucket" in item.path.name:
        return True
    number = _number(item) % 12
    return number in (3, 9) if "conformance" in item.path.parts else number % 3 == 1


def _number(item: pytest.Item) -> int:
    return zlib.crc32(item.nodeid.encode())


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all that this process runs, of the kind that ``TIDEMARK_TEST_SPARK`` names."""
    from tests.spark_support import session_of

    session = session_of(os.environ.get("TIDEMARK_TEST_SPARK", "local"))
    yield session
    session.stop()
