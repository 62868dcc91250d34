"""Rules: clauses with every variable numbered and typed, the form that is evaluated, rewritten and printed.

A rule derives its head for every assignment of its variables under which all parts of the body hold:

- ``Atom``: the row is in the predicate. Rows are compared by identity, NULL the same as NULL.
- ``Not``: no row of the predicate matches. A *strict* one, from a clause, finds nothing for NULL.
- ``Condition``: the expression is true. That NULL never joins is such a condition: ``x IS NOT NULL`` for a variable
  that occurs more than once. So every rewriting of a rule keeps the meaning of NULL by keeping the conditions.
- ``Assign``: the variable has the value of the expression, NULL included.

Expressions are those of the algebra, whose columns are the rule's variables. Rules that are made from one clause share
its variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tidemark.algebra.expressions import Call, Column, Expression, Literal, columns_of
from tidemark.algebra.text import show_expression, show_value
from tidemark.algebra.types import BOOLEAN, Schema


@dataclass(frozen=True)
class Var:
    index: int
    name: str = field(compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Const:
    literal: Literal

    def __str__(self) -> str:
        return show_value(self.literal.value)


@dataclass(frozen=True)
class Anything:
    """A wildcard, which stands under negation only: elsewhere it is a variable that is named once."""

    def __str__(self) -> str:
        return "_"


Argument: TypeAlias = Var | Const | Anything


@dataclass(frozen=True)
class Atom:
    predicate: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        return f"{self.predicate}({', '.join(map(str, self.arguments))})"

    def renamed(self, predicate: str) -> Atom:
        return replace(self, predicate=predicate)

    @property
    def variables(self) -> frozenset[int]:
        return frozenset(a.index for a in self.arguments if isinstance(a, Var))


@dataclass(frozen=True)
class Not:
    atom: Atom
    strict: bool = False

    def __str__(self) -> str:
        return f"not {self.atom}"

    @property
    def variables(self) -> frozenset[int]:
        return self.atom.variables


@dataclass(frozen=True)
class Condition:
    expression: Expression

    def __str__(self) -> str:
        text = show_expression(self.expression)
        return text[1:-1] if text.startswith("(") and text.endswith(")") else text

    @property
    def variables(self) -> frozenset[int]:
        return columns_of(self.expression)


@dataclass(frozen=True)
class Assign:
    variable: Var
    expression: Expression

    def __str__(self) -> str:
        text = show_expression(self.expression)
        return f"{self.variable} := {text[1:-1] if text.startswith('(') and text.endswith(')') else text}"

    @property
    def variables(self) -> frozenset[int]:
        return columns_of(self.expression) | {self.variable.index}


Part: TypeAlias = Atom | Not | Condition | Assign


@dataclass(frozen=True)
class DatalogRule:
    """``label`` says which rule of the papers it is, and of which clause."""

    head: Atom
    body: tuple[Part, ...]
    variables: Schema = field(compare=False)
    label: str = ""

    def __str__(self) -> str:
        text = f"{self.head} :- {', '.join(map(str, self.body))}." if self.body else f"{self.head}."
        for name in {field_.name for field_ in self.variables if field_.name.startswith("?")}:
            pattern = rf"{re.escape(name)}(?!\w)"
            text = re.sub(pattern, "_", text) if len(re.findall(pattern, text)) == 1 else text
        return text

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return tuple(part for part in self.body if isinstance(part, Atom))

    @property
    def negations(self) -> tuple[Not, ...]:
        return tuple(part for part in self.body if isinstance(part, Not))

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(a.predicate for a in self.atoms) | {n.atom.predicate for n in self.negations}

    def variable(self, index: int) -> Var:
        return Var(index, self.variables[index].name)


@dataclass(frozen=True)
class Grouping:
    """An aggregate as a predicate of its own: one row (keys, values) for each group of the rows of ``source``.

    The first ``keys`` columns of the source are the keys; each call reads one column of it, or none. A group is there
    while it has a row.
    """

    predicate: str
    source: str
    keys: int
    calls: tuple[GroupCall, ...]

    def __str__(self) -> str:
        calls = ", ".join(map(str, self.calls))
        return f"{self.predicate} groups {self.source} by its first {self.keys} columns: {calls}."


@dataclass(frozen=True)
class GroupCall:
    """count, sum, min or max of a column; ``column`` is None for count(*)."""

    function: str
    column: int | None

    def __str__(self) -> str:
        return f"{self.function}({'*' if self.column is None else f'column {self.column + 1}'})"


def is_present(rule_variables: Schema, index: int) -> Condition:
    """``x IS NOT NULL``."""
    field_ = rule_variables[index]
    column = Column(index, field_.name, field_.type, nullable=True)
    return Condition(Call("is_not_null", (column,), BOOLEAN, nullable=False))


def listing(rules: Iterable[DatalogRule]) -> str:
    """Rules as text, one on each line, with their labels in front; each text once.

    >>> rule = DatalogRule(Atom("p", (Var(0, "x"),)), (Atom("q", (Var(0, "x"),)),), Schema(()), label="D1")
    >>> print(listing([rule]))
    (D1) p(x) :- q(x).
    """
    return "\n".join(dict.fromkeys(f"({rule.label}) {rule}" if rule.label else str(rule) for rule in rules))
