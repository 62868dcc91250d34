"""Fixtures shared by all tests. Most tests need no Spark; those that do share one session in each process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all that this process runs, of the kind that ``TIDEMARK_TEST_SPARK`` names."""
    from tests.spark_support import session_of

    session = session_of(os.environ.get("TIDEMARK_TEST_SPARK", "local"))
    yield session
    session.stop()
