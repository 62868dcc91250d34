"""A net change by reference: the rows that come lie in files that an engine wrote, and need not come into this process.

Whoever knows what to do with the files asks ``by_reference`` first. Everybody else sees rows like any others: they are
read when they are looked at, if they are no more than there is room for here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from tidemark.algebra.cache import lazy
from tidemark.algebra.types import Schema
from tidemark.errors import TidemarkError
from tidemark.storage import delta as deltas
from tidemark.storage.delta import Rows

MOST_READ: Final = 20_000_000
"""So many rows are read into this process by who cannot do with files."""


@dataclass(frozen=True)
class Files:
    """Files of one engine, which alone looks into them: how many rows they have, how they are read, and how they are
    thrown away if no commit has named them."""

    named: Any
    rows: int
    read: Callable[[], pa.Table]
    discard: Callable[[], None]


class FiledRows(Rows):
    """Rows that come, in files, each of weight one, and entries that leave; no row is among both."""

    is_by_reference = True

    def __init__(self, schema: Schema, files: tuple[Files, ...], leaving: pa.Table | None = None) -> None:
        super().__init__(schema, listed=[])
        self._listed = None  # rows are there in no form
        self.files = files
        self.leaving = schema.weighted.empty_table() if leaving is None else leaving
        self.coming = sum(file.rows for file in files)
        self.count = self.coming + self.leaving.num_rows

    @lazy
    def table(self) -> pa.Table:
        if self.count > MOST_READ:
            raise TidemarkError(
                "unsupported",
                f"a change of {self.count} rows lies in files, and something reads it row by row",
                hint=f"that is done for changes of up to {MOST_READ} rows: load it in parts",
            )
        rows = pa.concat_tables([file.read() for file in self.files])
        return deltas.combine(deltas.weighted(rows).rename_columns(self.arrow.names).cast(self.arrow), self.leaving)

    @lazy
    def size(self) -> int:
        return self.coming + deltas.size(self.leaving)

    @lazy
    def growth(self) -> int:
        return self.coming + deltas.growth(self.leaving)

    @property
    def is_few(self) -> bool:
        return False

    @property
    def is_bag(self) -> bool:
        return False

    def joined(self, others: Sequence[Rows]) -> Rows | None:
        """With other rows that come in files; None if anything else is among them."""
        if self.leaving.num_rows or not all(isinstance(one, FiledRows) and not one.leaving.num_rows for one in others):
            return None
        files = (*self.files, *(file for one in others if isinstance(one, FiledRows) for file in one.files))
        return FiledRows(self._schema, files)  # type: ignore[arg-type]
