"""Every error that users see: a stable code, what was wrong, where in the text, and what to do."""

from __future__ import annotations

from dataclasses import dataclass


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
        lines = self.text.split("\n")
        source = lines[min(self.line, len(lines)) - 1]
        caret = " " * (self.column - 1) + "^" * max(1, self.width)
        return f"line {self.line}, column {self.column}:\n  {source}\n  {caret}"


class TidemarkError(Exception):
    """The one exception type of Tidemark.

    ``code`` is stable and meant for programs, ``message`` says what was wrong, ``place`` where in the SQL
    text, and ``hint`` what to do about it.

    >>> str(TidemarkError("unknown_column", "there is no column 'x'", hint="columns: a, b"))
    "[unknown_column] there is no column 'x'\\nhint: columns: a, b"
    """

    def __init__(self, code: str, message: str, *, place: Place | None = None, hint: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        parts = [f"[{self.code}] {self.message}"]
        if self.place is not None:
            parts.append(self.place.pointer())
        if self.hint is not None:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


def too_complex() -> TidemarkError:
    """Python's recursion limit was reached."""
    return TidemarkError(
        "too_complex", "the statement is nested too deeply", hint="split it: views can be defined on views"
    )
