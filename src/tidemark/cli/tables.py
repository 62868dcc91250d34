"""Words, numbers and Arrow tables as text: a row on a line each, or, where it does not fit, a column on a line each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text


def printable(text: str) -> str:
    """The text with control characters written as escapes: data must not steer the terminal.

    >>> printable("two\\nlines, \\x1b[31mred")
    'two\\\\nlines, \\\\x1b[31mred'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines; a tab becomes one blank, so that what stands below it stays in place."""
    return "\n".join(printable(line.replace("\t", " ")) for line in text.split("\n"))


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(milliseconds: float) -> str:
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    return f"{milliseconds:.0f} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:.1f} s"


def size(number: int) -> str:
    """A number of bytes as people read it.

    >>> size(999), size(1_260_000), size(3 * 2**30)
    ('999 bytes', '1.2 MiB', '3.0 GiB')
    """
    for power, unit in enumerate(("KiB", "MiB", "GiB"), start=1):
        if 1024**power <= number < 1024 ** (power + 1) or (unit == "GiB" and number >= 1024**3):
            return f"{number / 1024**power:.1f} {unit}"
    return counted(number, "byte")


NARROWEST: Final = 6
"""A column that is folded to fewer letters than this cannot be read."""
GAP: Final = 2


def grid(table: pa.Table, signs: Sequence[Text] | None = None) -> Table:
    """The table without lines: names above, numbers to the right."""
    shown = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    if signs is not None:
        shown.add_column("", no_wrap=True)
    for field in table.schema:
        justify: Any = "right" if _is_number(field.type) else "left"
        shown.add_column(Text(printable(field.name)), justify=justify, overflow="fold")
    columns = [[cell(value) for value in column.to_pylist()] for column in table.columns]
    for position in range(table.num_rows):
        cells = [column[position] for column in columns]
        shown.add_row(*((signs[position], *cells) if signs is not None else cells))
    return shown


def records(table: pa.Table) -> Table:
    """Each row as a block of lines, one for each column."""
    shown = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=False)
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column(overflow="fold")
    for position, row in enumerate(table.to_pylist()):
        if position:
            shown.add_row("", "")
        for name, value in row.items():
            shown.add_row(Text(printable(name)), cell(value))
    return shown


def fits(table: pa.Table, width: int) -> bool:
    """Whether the table can be read within a width: no column has to be folded to a few letters.

    >>> wide = pa.table({f"column_{number}": ["some text"] for number in range(12)})
    >>> fits(wide, 80), fits(wide, 120)
    (False, True)
    """
    needed = 0
    for field, column in zip(table.schema, table.columns, strict=True):
        values = [cell_len(cell(value).plain) for value in column.slice(0, 100).to_pylist()]
        needed += min(max([cell_len(field.name), *values]), NARROWEST) + GAP
    return needed - GAP <= width


def sorted_rows(weighted: pa.Table) -> tuple[pa.Table, list[int]]:
    """The rows of a weighted table and their weights, so ordered that old and new rows stand together, old first."""
    first, *others, weight = weighted.column_names
    lists = {field.name for field in weighted.schema if pa.types.is_nested(field.type)}  # Arrow does not order them
    ordered = weighted.sort_by([(name, "ascending") for name in (first, weight, *others) if name not in lists])
    weights: list[int] = ordered.column(ordered.num_columns - 1).to_pylist()
    return ordered.select(range(ordered.num_columns - 1)), weights


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def cell(value: Any) -> Text:
    match value:
        case None:
            return Text("NULL", "dim")
        case bool():
            return Text("true" if value else "false")
        case dt.datetime() if value.tzinfo is not None:
            return Text(f"{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=' ')}+00")
        case dt.datetime():
            return Text(value.isoformat(sep=" "))
        case bytes():
            return Text(f"\\x{value.hex()}")
        case Decimal():
            return Text(f"{value:f}")
        case list():
            return Text(f"[{', '.join(cell(element).plain for element in value)}]")
        case dict():
            return Text(f"({', '.join(f'{name}: {cell(part).plain}' for name, part in value.items())})")
    return Text(printable(str(value)))
