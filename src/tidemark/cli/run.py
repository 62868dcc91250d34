"""Running a script statement by statement, and telling after each transaction what it did to the views."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import pyarrow as pa

from tidemark.algebra.types import VERSION
from tidemark.answers.describe import TransactionState, transaction_state
from tidemark.cli.databases import Piece
from tidemark.cli.show import Committed, Display, ViewChange
from tidemark.cli.spinner import Status
from tidemark.cli.tables import counted, duration, sorted_rows
from tidemark.errors import TidemarkError
from tidemark.session import Database
from tidemark.session.statements import Kind
from tidemark.storage.delta import net

_ENDS = frozenset({"(", "AS", "WITH", "ON", "WHEN", "FOR", "AT", "EVERY", "AFTER", "CHECK"})


@dataclass
class _Block:
    """The statements of one transaction, from BEGIN on or a single one, and the time that they took."""

    first: Piece
    pieces: list[Piece] = field(default_factory=list)
    seconds: float = 0.0


class ScriptRun:
    """One run of a script on one database.

    ``is_echoed`` puts the text of a query above its answer, for readers who did not type it.
    """

    def __init__(self, database: Database, display: Display, status: Status, *, is_echoed: bool = True) -> None:
        self._database = database
        self._display = display
        self._status = status
        self.is_echoed = is_echoed
        self._block: _Block | None = None
        self.is_timed = False
        """Whether the time is shown below an answer, too."""
        self.is_true = True
        """Whether every AUDIT so far found what it should."""

    @property
    def is_in_transaction(self) -> bool:
        return self._block is not None

    def run(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            self.run_piece(piece)
        self.end()

    def end(self) -> None:
        """Refuse the end of the script where a transaction is open."""
        if self._block is not None:
            raise TidemarkError(
                "transaction",
                "the script ends inside a transaction",
                place=self._block.first.place,
                hint="end it with COMMIT",
            )

    def recover(self) -> None:
        """Go on after an error: if it ended the transaction, none is open here either."""
        if transaction_state(self._database) is TransactionState.NONE:
            self._block = None

    def run_piece(self, piece: Piece) -> None:
        """Run one statement and show what it did."""
        before = self._database.version
        started = time.perf_counter()
        result = self._execute(piece)
        seconds = time.perf_counter() - started
        if self._block is not None:
            self._block.seconds += seconds
        match piece.kind:
            case Kind.BEGIN:
                self._block = _Block(piece)
            case Kind.COMMIT | Kind.ROLLBACK:
                self._end(piece, before)
            case Kind.REFRESH if self._database.version == before:
                self._display.note(f"{', '.join(piece.names)} is up to date")
            case Kind.CHANGE | Kind.CREATION | Kind.DEFINITION | Kind.REFRESH:
                if self._block is not None:
                    self._block.pieces.append(piece)
                else:
                    self._committed(_Block(piece, [piece], seconds), before)
            case _:
                if self._block is not None and piece.changes:
                    self._block.pieces.append(piece)
                self._answer(piece, result, seconds)

    def _execute(self, piece: Piece) -> pa.Table | None:
        try:
            with self._status.showing(self._label(piece)):
                return self._database.execute(piece.text)
        except TidemarkError as error:
            raise piece.located(error) from error

    def _label(self, piece: Piece) -> str:
        """What goes on: most of a transaction's work is done by its COMMIT, which by itself says little."""
        title = self._block.first.comment if self._block is not None else ""
        return f"{piece.summary}: {title}" if piece.kind is Kind.COMMIT and title else piece.summary

    def _end(self, piece: Piece, before: int) -> None:
        block, self._block = self._block, None
        if block is None:
            return
        if piece.kind is Kind.COMMIT:
            self._committed(block, before)
        else:
            self._note("rolled back", block)

    # What is shown

    def _committed(self, block: _Block, before: int) -> None:
        version = self._database.version
        if version == before:
            self._note("nothing to commit", block)
        elif self._steps(before) or any(piece.changes for piece in block.pieces):
            self._display.transaction(self._report(block, before))
        else:
            for piece in block.pieces:
                self._display.definition(version, _heading(piece), self._detail(piece, block.seconds))

    def _report(self, block: _Block, before: int) -> Committed:
        """What a transaction did, and what followed from it at once in versions of its own."""
        rows = rows_by_view(self._database) | rows_of_lagging(self._database)
        views = [name for name, count in rows.items() if count is not None]
        created = {name for piece in block.pieces if piece.kind is Kind.CREATION for name in piece.names}
        trace = self._steps(before)
        steps = {step["node"]: step for step in trace if step["rows_out"]}
        changed = [
            change for name in views if name in steps and (change := self._view_change(name, before, steps[name]))
        ]
        inner = [step for step in trace if step["node"] not in views]
        statements = tuple(_heading(piece) for piece in block.pieces)
        comment = block.first.comment
        alone = not comment and len(statements) == 1
        told = {change.view for change in changed} | created | rows_of_lagging(self._database).keys()
        return Committed(
            (before + 1, self._database.version),
            self._display.shortened(statements[0], indent=16) if alone else comment or "transaction",
            () if alone else statements,
            tuple(changed),
            tuple(name for name in views if name not in told),
            len(inner),
            sum(step["milliseconds"] for step in inner),
            block.seconds,
        )

    def _steps(self, before: int) -> list[dict[str, Any]]:
        """What was recorded of the versions since then, as far as it is still kept."""
        steps: list[dict[str, Any]] = []
        for version in range(before + 1, self._database.version + 1):
            with suppress(TidemarkError):
                steps += self._database.trace(version).to_pylist()
        return steps

    def _view_change(self, view: str, before: int, step: dict[str, Any]) -> ViewChange | None:
        try:
            changes = self._database.changes(view, since=before)
        except TidemarkError:  # the log has so narrow limits that it is cut already
            return None
        weighted = net(_without_stamps(changes))
        rows, weights = sorted_rows(weighted)
        return ViewChange(view, rows, weights, str(step["strategy"]), float(step["milliseconds"])) if weights else None

    def _detail(self, piece: Piece, seconds: float) -> str:
        if piece.kind is not Kind.CREATION or not piece.names:
            return ""
        stored = rows_by_view(self._database)
        rows = sum(stored.get(name) or 0 for name in piece.names)
        return f"{counted(rows, 'row')}, {duration(seconds * 1000)}"

    def _note(self, what: str, block: _Block) -> None:
        done = "; ".join(piece.summary for piece in block.pieces) or block.first.summary
        self._display.note(self._display.shortened(f"{what}: {block.first.comment or done}"))

    def _answer(self, piece: Piece, result: pa.Table | None, seconds: float) -> None:
        title = piece.comment or self._display.shortened(piece.summary) if self.is_echoed else ""
        match piece.kind:
            case _ if result is None:
                return
            case Kind.TEXT:
                self._display.text(title, "\n".join(result.column(0).to_pylist()))
            case Kind.VERDICT:
                (name,) = piece.names
                self.is_true = self.is_true and not result.num_rows
                self._display.audit(name, result, rows_by_view(self._database).get(name) or 0, seconds)
            case _:
                self._display.result(title, result)
        if self.is_timed:
            self._display.footnote(duration(seconds * 1000))


def audit(database: Database, views: list[str], display: Display, status: Status) -> bool:
    """Audit the views, or all materialized ones if none is named; whether all is well."""
    rows = rows_by_view(database)
    names = views or [name for name, count in rows.items() if count is not None]
    if not names:
        display.note("there is no materialized view to audit")
    is_true = True
    for name in names:
        started = time.perf_counter()
        with status.showing(f"AUDIT {name}"):
            differing = database.audit(name)
        is_true = is_true and not differing.num_rows
        display.audit(name, differing, rows.get(name) or rows.get(name.lower()) or 0, time.perf_counter() - started)
    return is_true


def _without_stamps(changes: pa.Table) -> pa.Table:
    """Changes without versions and times: the columns of the relation and the weight."""
    width = changes.column_names.index(VERSION)
    return changes.select([*range(width), width + 1])


def rows_by_view(database: Database) -> dict[str, int | None]:
    """The views with their numbers of rows; None for those that are not materialized."""
    shown = database.execute("SHOW VIEWS")
    return {} if shown is None else {view["name"]: view["rows"] for view in shown.to_pylist()}


def rows_of_lagging(database: Database) -> dict[str, int | None]:
    """The continual queries and snapshots with their numbers of rows."""
    shown = [database.execute(f"SHOW {kind}") for kind in ("CONTINUAL QUERIES", "SNAPSHOTS")]
    return {one["name"]: one["rows"] for table in shown if table is not None for one in table.to_pylist()}


def _heading(piece: Piece) -> str:
    """The statement on one line; of a definition only what is defined."""
    if piece.kind is not Kind.CREATION:
        return piece.summary
    words = piece.summary.replace("(", " ( ").split()
    return " ".join(takewhile(lambda word: word.upper() not in _ENDS, words))
