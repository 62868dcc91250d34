"""What a round is made of: steps, each a value that can be left out, printed and played again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """Statements that change tables, in one transaction."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Load:
    """Rows (n, g) of the table p, of which n counts from ``first`` up, and g is its remainder by ``groups``."""

    first: int
    count: int
    groups: int

    def rows(self) -> list[tuple[int, int]]:
        return [(n, n % self.groups) for n in range(self.first, self.first + self.count)]


@dataclass(frozen=True)
class Define:
    """A relation that is derived from others: ``how`` is MATERIALIZED VIEW, EXTERNAL VIEW or SNAPSHOT."""

    name: str
    query: str
    how: str = "MATERIALIZED VIEW"

    @property
    def text(self) -> str:
        return f"CREATE {self.how} {self.name} AS {self.query}" + (
            " REFRESH ON DEMAND" if self.how == "SNAPSHOT" else ""
        )


@dataclass(frozen=True)
class Ask:
    """A query."""

    query: str


@dataclass(frozen=True)
class Reopen:
    """The database is closed and opened again."""


@dataclass(frozen=True)
class Checkpoint:
    """What lies beside the main files is brought into them."""


Step = Run | Load | Define | Ask | Reopen | Checkpoint


@dataclass(frozen=True)
class Round:
    """The tables, with how many columns each has, and the steps."""

    schema: str
    widths: dict[str, int]
    steps: tuple[Step, ...]
    ties: bool = False
    """Whether LIMIT meets rows that are equal in its order: SQLite takes others of them than we do."""
