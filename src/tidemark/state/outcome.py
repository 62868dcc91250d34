"""Commits that are under way: what memory has to follow if it turns out that they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import Catalog
from tidemark.state.transition import Transition

COMMIT_UNKNOWN: Final = "commit_unknown"


@dataclass
class Outcome:
    """What became of a transaction's work: the version that it made, if it is known to have made one."""

    version: int | None = None


@dataclass(frozen=True)
class Underway:
    """A commit that was handed to the engine. Catalogs and networks are immutable, so both the one before and the one
    after are at hand, and storage alone decides which of them is true."""

    version: int
    catalog: Catalog
    transition: Transition
    outcome: Outcome


def is_undone(error: BaseException) -> bool:
    """Whether an engine's error says that nothing of a commit was stored, and that memory is as it was."""
    return isinstance(error, TidemarkError) and error.code != COMMIT_UNKNOWN


def unknown(version: int, error: BaseException) -> TidemarkError:
    """Storage cannot be read, so nobody knows whether a commit is there."""
    return TidemarkError(
        "commit_unknown",
        f"whether version {version} was committed is not known, since what is stored cannot be read: {_words(error)}",
        hint="when the storage can be read again, compare db.version, here or after connecting again: "
        f"the transaction is there if it is {version} or more",
    )


def not_written(error: BaseException) -> BaseException:
    """The error of a commit that did not happen, when the engine could not tell by itself."""
    if isinstance(error, TidemarkError) and error.code == COMMIT_UNKNOWN:
        reason: BaseException = error
        while reason.__cause__ is not None:
            reason = reason.__cause__
        return TidemarkError("storage_failed", f"the commit could not be written: {_words(reason)}")
    return error


def unreadable(error: BaseException) -> TidemarkError:
    return TidemarkError(
        "storage_failed",
        f"what is stored cannot be read again after a failure: {_words(error)}",
        hint="see to the storage, and try again",
    )


def _words(error: BaseException) -> str:
    told = error.message if isinstance(error, TidemarkError) else str(error)
    return (told or type(error).__name__).splitlines()[0]
