"""Every error that users see: a stable code, what was wrong, where in the text, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self, cast

HALVES: Final = dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
"""Halves of surrogate pairs, which no terminal, file or engine takes, and one whole character for each."""


def half_character(text: str) -> int | None:
    """Where a text has half of a surrogate pair: Python's texts can, others cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


_PASSWORD: Final = re.compile(r"""\b([A-Za-z][\w+.-]*:/{1,2})([^\s/'"@:]*:(?!\d+/)[^\s'"@]*)(?=@)""")
"""A user and a password in a url, behind its scheme."""


def printable(text: str) -> str:
    """A text as it is shown: with whole characters, and without the passwords of urls.

    >>> printable("s3://key:secret@bucket/lake")
    's3://…@bucket/lake'
    """
    shown = text if half_character(text) is None else text.translate(HALVES)
    return _PASSWORD.sub(r"\1…", shown) if "@" in shown else shown


@dataclass(frozen=True)
class Place:
    """Where in a text an error stands: 1-based line and column, and the text itself."""

    line: int
    column: int
    text: str
    width: int = 1

    def pointer(self) -> str:
        """The line of the text with a caret under the place.

        >>> print(Place(1, 8, "SELECT nam FROM t", width=3).pointer())
        line 1, column 8:
          SELECT nam FROM t
                 ^^^
        """
        lines = self.text.translate(HALVES).split("\n")
        source = _PASSWORD.sub(lambda found: found[1] + "…" * len(found[2]), lines[min(self.line, len(lines)) - 1])
        caret = " " * (self.column - 1) + "^" * max(1, self.width)
        return f"line {self.line}, column {self.column}:\n  {source}\n  {caret}"

    def inside(self, whole: Place) -> Place:
        """The same place in the whole text, of which a part begins at the other place."""
        line, column = whole.line + self.line - 1, self.column + (whole.column - 1 if self.line == 1 else 0)
        return Place(line, column, whole.text, self.width)


class TidemarkError(Exception):
    """The base of Tidemark's exceptions, and how each of them is made.

    ``code`` is stable and meant for programs, ``message`` says what was wrong, ``place`` where in the SQL
    text, and ``hint`` what to do about it. The code decides the family, which is the class of the error.

    >>> str(TidemarkError("unknown_column", "there is no column 'x'", hint="columns: a, b"))
    "[unknown_column] there is no column 'x'\\nhint: columns: a, b"
    >>> isinstance(TidemarkError("not_null", "the column 'a' has no value"), ConstraintError)
    True
    """

    def __new__(cls, code: object = None, *arguments: object, **named: object) -> Self:
        """An error of the family that the table has for the code; of a class that is named, that class."""
        chosen = CODES.get(str(code), cls) if cls is TidemarkError else cls
        return cast("Self", super().__new__(chosen))

    def __init__(self, code: str, message: str, *, place: Place | None = None, hint: str | None = None) -> None:
        self.message = printable(message)
        super().__init__(code, self.message)
        self.code = code
        self.place = place
        self.hint = None if hint is None else printable(hint)

    def __str__(self) -> str:
        parts = [f"[{self.code}] {self.message}"]
        if self.place is not None:
            parts.append(self.place.pointer())
        if self.hint is not None:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)

    def within(self, where: str) -> TidemarkError:
        """The same error, told with what it happened in.

        >>> print(TidemarkError("overflow", "300 does not fit", hint="CAST").within("column 'a'"))
        [overflow] column 'a': 300 does not fit
        hint: CAST
        """
        return self.restated(f"{where}: {self.message}")

    def restated(
        self, message: str | None = None, *, place: Place | None = None, hint: str | None = None
    ) -> TidemarkError:
        """The same error in other words, with another place or another hint; what is not given stays."""
        told = TidemarkError(
            self.code,
            self.message if message is None else message,
            place=self.place if place is None else place,
            hint=self.hint if hint is None else hint,
        )
        told.__cause__ = self.__cause__
        return told

    def without_place(self) -> TidemarkError:
        """The same error for readers who do not have the text that it has a place in."""
        told = self.restated()
        told.place = None
        return told


class StatementError(TidemarkError):
    """What a statement or a call asks for is wrong as it is written, or names what is not there."""


class UnsupportedError(TidemarkError):
    """What is asked for cannot be had: Tidemark, or this installation, does not have it."""


class ConstraintError(TidemarkError):
    """The rows would violate what was declared of them."""


class EvaluationError(TidemarkError):
    """A value, a view or an action could not be computed, or not within its limits."""


class TransactionError(TidemarkError):
    """The transaction, or the connection, is not in a state in which this can be done."""


class VersionError(TidemarkError):
    """A point of the history was asked for that is not there, or does not follow the one before."""


class InUseError(TidemarkError):
    """Somebody else is at work: the same can succeed later."""


class StorageError(TidemarkError):
    """What is stored cannot be opened, read or written."""


class InternalError(TidemarkError):
    """A fault in Tidemark itself."""


CODES: Final[Mapping[str, type[TidemarkError]]] = {
    "syntax": StatementError,
    "unknown_function": StatementError,
    "unknown_relation": StatementError,
    "unknown_column": StatementError,
    "unknown_rule": StatementError,
    "unknown_parameter": StatementError,
    "parameter": StatementError,
    "unknown_entry": StatementError,
    "unknown_dialect": StatementError,
    "ambiguous_name": StatementError,
    "duplicate_column": StatementError,
    "reserved_name": StatementError,
    "exists": StatementError,
    "type": StatementError,
    "columns": StatementError,
    "grouping": StatementError,
    "ordering": StatementError,
    "not_deterministic": StatementError,
    "approximate_key": StatementError,
    "cycle": StatementError,
    "arity": StatementError,
    "unsafe": StatementError,
    "not_stratified": StatementError,
    "too_complex": StatementError,
    "not_a_table": StatementError,
    "read_only": StatementError,
    "not_a_view": StatementError,
    "not_materialized": StatementError,
    "wrong_kind": StatementError,
    "dependents": StatementError,
    "no_key": StatementError,
    "stopped": StatementError,
    "target": StatementError,
    "option": StatementError,
    "not_allowed": StatementError,
    "unknown_source": StatementError,
    "script": StatementError,
    "unsupported": UnsupportedError,
    "not_incremental": UnsupportedError,
    "java_missing": UnsupportedError,
    "primary_key": ConstraintError,
    "not_null": ConstraintError,
    "check": ConstraintError,
    "assertion": ConstraintError,
    "absent": ConstraintError,
    "division_by_zero": EvaluationError,
    "cardinality": EvaluationError,
    "overflow": EvaluationError,
    "invalid_value": EvaluationError,
    "runaway": EvaluationError,
    "out_of_memory": EvaluationError,
    "interrupted": EvaluationError,
    "timeout": EvaluationError,
    "action": EvaluationError,
    "cascade": EvaluationError,
    "evaluation_failed": EvaluationError,
    "transaction": TransactionError,
    "doomed": TransactionError,
    "closed": TransactionError,
    "version": VersionError,
    "time": VersionError,
    "redefined": VersionError,
    "message": VersionError,
    "no_change": VersionError,
    "busy": InUseError,
    "in_use": InUseError,
    "fenced": TransactionError,
    "not_a_database": StorageError,
    "permission": StorageError,
    "format": StorageError,
    "storage_failed": StorageError,
    "commit_unknown": StorageError,
    "damaged": StorageError,
    "backup": StorageError,
    "source": StorageError,
    "internal": InternalError,
}
"""The family of each code. The page of errors has the same order."""


def is_fenced(error: BaseException | None) -> bool:
    """Whether another writer has taken the place of this one: nothing was changed, and nothing is changed any more."""
    return isinstance(error, TidemarkError) and error.code == "fenced"


def too_complex() -> TidemarkError:
    """Python's recursion limit was reached."""
    return TidemarkError(
        "too_complex", "the statement is nested too deeply", hint="split it: views can be defined on views"
    )


_PRESSED: Final = "Query interrupted"
"""What DuckDB says, as a RuntimeError, when a signal came while it was at work. It has swallowed what the handler of
the signal raised, which is KeyboardInterrupt unless the program has a handler of its own."""
_SWALLOWED: Final = re.compile(
    r"Invalid Input Error: (?:reading|exporting|counting|offering) .* failed: KeyboardInterrupt"
)
"""What it says, as an error of its own, when the signal came while it asked an Arrow table for its schema or rows."""


def was_pressed(error: BaseException | None, known: BaseException | None) -> bool:
    """Whether an error comes of a signal; ``known`` is what was being dealt with before."""
    seen = {id(known)}
    while error is not None and id(error) not in seen:
        if isinstance(error, RuntimeError) and str(error) == _PRESSED:
            return True
        if library_of(error) == "duckdb" and _SWALLOWED.match(str(error)):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def library_of(error: BaseException) -> str:
    """The library that an exception comes from, which need not be imported to be known."""
    return type(error).__module__.partition(".")[0].lstrip("_")
