"""A relation as programs hold it: nothing is read before somebody asks for its rows, in the form of one library.

Neither pandas nor polars nor Spark is needed for anything else, so each is asked for when its form is.
"""

from __future__ import annotations

import html
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from tidemark.algebra.aggregates import AggregateFunction
from tidemark.algebra.plans import Aggregate, AggregateCall, Plan, Sort
from tidemark.algebra.types import Schema
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import Catalog
from tidemark.state.boundary import bounded
from tidemark.state.names import relation_named

SHOWN: Final = 10
"""So many rows stand in what a relation shows of itself."""
MOST_LETTERS: Final = 40
"""A value that is shown in more letters is cut off there."""


@dataclass(frozen=True)
class Home:
    """Who answers for relations: what is defined, the rows of a plan over it, and a DataFrame of a Spark session over
    what is stored of a relation, or None if there is nothing that Spark reads."""

    catalog: Callable[[], Catalog]
    read: Callable[[Callable[[Catalog], Plan]], pa.Table]
    frame: Callable[[str, object], Any]

    def schema(self, name: str) -> Schema:
        return relation_named(name, self.catalog()).schema

    def rows(self, name: str, over: Callable[[Plan], Plan]) -> pa.Table:
        """The rows of a plan over the relation, as it is now."""
        return self.read(lambda catalog: over(catalog.scan(relation_named(name, catalog).name)))


@bounded
@dataclass(frozen=True, repr=False)
class Relation:
    """A table or a view. Made by ``Database.table``. Each time that it is asked, it is read as it is then.

    >>> import tidemark as tm
    >>> db = tm.connect("duckdb")
    >>> db.execute("CREATE TABLE stock (item VARCHAR, amount INT)")
    >>> db.insert("stock", [("nut", 5), ("bolt", 2)])
    >>> stock = db.table("stock")
    >>> stock.columns
    ('item', 'amount')
    >>> stock.arrow().num_rows
    2
    >>> print(stock)
    stock: 2 rows
    item  amount
    bolt  2
    nut   5
    >>> db.close()
    """

    name: str
    _home: Home
    _limit: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return self._home.schema(self.name).names

    @property
    def schema(self) -> pa.Schema:
        """Its columns as an Arrow schema."""
        return self._home.schema(self.name).arrow

    def limit(self, rows: int) -> Relation:
        """Only so many of its rows, the first ones in the order of all columns."""
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
            raise TidemarkError("type", f"a limit is a number of rows, not {rows!r}")
        least = rows if self._limit is None else min(rows, self._limit)
        return Relation(self.name, self._home, least)

    def arrow(self) -> pa.Table:
        """Its rows as a pyarrow.Table; equal rows are repeated, in no order."""
        return self._home.rows(self.name, self._limited)

    def pandas(self) -> Any:
        """Its rows as a pandas.DataFrame. Whole numbers and truth values beside NULL are of pandas' types that have
        one, and arrays are lists, so that no digit is lost."""
        library = _needed("pandas")
        table = self.arrow()
        places = [place for place, field in enumerate(table.schema) if pa.types.is_nested(field.type)]
        found = _flat(table.select([place for place in range(table.num_columns) if place not in places]), library)
        for place in places:
            values = library.Series(table.column(place).to_pylist(), index=found.index, dtype=object)
            found.insert(place, table.column_names[place], values)
        return found

    def polars(self) -> Any:
        """Its rows as a polars.DataFrame."""
        return _needed("polars").from_arrow(self.arrow())

    def spark(self, session: Any = None) -> Any:
        """A DataFrame of a Spark session: the given one, else that of ``connect``, else the active one.

        Of what a lake stores it reads the files of the last committed version and what came since; no row of the files
        goes through this process. Whatever is not stored there, or has a ``limit``, goes to Spark as Arrow.
        """
        found = self._home.frame(self.name, session) if self._limit is None else None
        if found is not None:
            return found
        _needed("pyspark")
        from tidemark.engines.spark.frames import local_frame, session_of

        return local_frame(session_of(session), self.arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """The first rows, as text."""
        table, heading = self._first()
        cells = [table.column_names, *_cells(table)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
        return "\n".join([heading, *lines])

    def _repr_html_(self) -> str:
        """The first rows, as notebooks show a table."""
        table, heading = self._first()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in table.column_names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in _cells(table)
        )
        caption = f"<caption>{html.escape(heading)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _limited(self, plan: Plan) -> Plan:
        return plan if self._limit is None else _first_rows(plan, self._limit)

    def _first(self) -> tuple[pa.Table, str]:
        """The rows to be shown, and a line above them."""
        most = SHOWN if self._limit is None else min(self._limit, SHOWN)
        table = self._home.rows(self.name, lambda plan: _first_rows(plan, most))
        [count] = self._home.rows(self.name, lambda plan: _counted(self._limited(plan))).column(0).to_pylist()
        more = f", the first {table.num_rows}" if table.num_rows < count else ""
        return table, f"{self.name}: {count} row{'' if count == 1 else 's'}{more}"


def _first_rows(plan: Plan, most: int) -> Plan:
    return Sort(plan, (), limit=most).total


def _counted(plan: Plan) -> Plan:
    return Aggregate(plan, ("count",), (), (AggregateCall(AggregateFunction.COUNT_ROWS),))


def _cells(table: pa.Table) -> list[list[str]]:
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return [[_shown(value) for value in row] for row in rows]


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        value = f"\\x{value.hex()}"
    text = "NULL" if value is None else str(value).replace("\n", "\\n")
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def _flat(table: pa.Table, library: Any) -> Any:
    """Columns of plain values as a frame."""
    if not table.num_columns:
        return library.DataFrame(index=library.RangeIndex(table.num_rows))
    kinds = {field.type: _nullable(field.type, library) for field in table.schema}
    lacking = {column.type for column in table.columns if column.null_count}
    return table.to_pandas(types_mapper=lambda type_: kinds.get(type_) if type_ in lacking else None)


def _nullable(type_: pa.DataType, pandas: Any) -> Any:
    """pandas' type that has NULL beside the values of an Arrow type, for those that would become others."""
    if pa.types.is_boolean(type_):
        return pandas.BooleanDtype()
    if pa.types.is_signed_integer(type_):
        return {16: pandas.Int16Dtype, 32: pandas.Int32Dtype, 64: pandas.Int64Dtype}[type_.bit_width]()
    return None


def _needed(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise TidemarkError(
            "unsupported",
            f"{library} is not installed",
            hint=f"pip install {library}; arrow() needs nothing else",
        ) from error
