"""SELECT blocks: sources, conditions and outputs, flat, and how they become text.

Weights are carried apart from the values: each source either has a weight column or counts each row once, and the
weight of a block's row is the product of its sources' weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Final, Protocol

from tidemark.algebra.expressions import Expression, Literal, conjuncts
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import WEIGHT
from tidemark.engines.sqltext.expressions import Condition, ExpressionDialect, Output, guarded, output_of

LONG_TEXT: Final = 20_000


@dataclass(frozen=True)
class FromItem:
    """Something that can stand in FROM: a table's name or a query in parentheses, with its columns' SQL names.

    ``weight`` is the name of the weight column, or None when each row counts once. ``small`` sources are given
    deltas, from which a join is best started.
    """

    text: str
    columns: tuple[str, ...]
    weight: str | None = None
    small: bool = False


@dataclass(frozen=True)
class Item:
    """A source in the FROM list of one block, under its alias."""

    alias: str
    source: FromItem


@dataclass(frozen=True)
class Select:
    """One SELECT block: sources, conditions, outputs; the weight is the product of ``weights`` times ``sign``."""

    items: tuple[Item, ...]
    conditions: tuple[Condition, ...]
    outputs: tuple[Output, ...]
    weights: tuple[str, ...] = ()
    sign: int = 1

    @property
    def is_unit(self) -> bool:
        """Whether each row counts exactly once."""
        return not self.weights and self.sign == 1

    @property
    def weight(self) -> str:
        product = " * ".join(self.weights) or "CAST(1 AS BIGINT)"
        return product if self.sign == 1 else f"-({product})"


class BlockDialect(ExpressionDialect, Protocol):
    """What differs between the engines' blocks."""

    def from_clause(self, items: tuple[Item, ...], conditions: tuple[Condition, ...]) -> str: ...
    def repeated(self, query: str, alias: str, weight: str) -> str: ...


@dataclass
class BlockWriter:
    """Writes the blocks of one statement; aliases are numbered across all of it."""

    dialect: BlockDialect
    aliases: int = 0

    def _from(self, source: FromItem) -> Select:
        alias = self._alias()
        outputs = tuple(Output(f"{alias}.{column}", frozenset({alias})) for column in source.columns)
        weights = () if source.weight is None else (f"{alias}.{source.weight}",)
        return Select((Item(alias, source),), (), outputs, weights)

    def _with_conditions(self, block: Select, predicate: Expression) -> Select:
        added = []
        for part in conjuncts(predicate):
            if isinstance(part, Literal) and part.value is True:
                continue
            output = self._output(part, block.outputs)
            added.append(Condition(output.text, output.aliases, can_fail(part)))
        return Select(block.items, block.conditions + tuple(added), block.outputs, block.weights, block.sign)

    def _project(self, block: Select, expressions: tuple[Expression, ...]) -> Select:
        outputs = tuple(self._output(expression, block.outputs) for expression in expressions)
        if sum(len(output.text) for output in outputs) > LONG_TEXT:
            # Substituting again and again would make the text grow without bound: nest instead.
            names = names_of(len(block.outputs))
            inner = self._from(FromItem(f"({self._select_text(block, names, WEIGHT)})", names, WEIGHT))
            outputs = tuple(self._output(expression, inner.outputs) for expression in expressions)
            block = inner
        return Select(block.items, block.conditions, outputs, block.weights, block.sign)

    def _select_text(self, block: Select, names: tuple[str, ...], weight: str | None) -> str:
        shown = [f"{output.text} AS {name}" for output, name in zip(block.outputs, names, strict=True)]
        if weight is not None:
            shown.append(f"{block.weight} AS {weight}")
        return f"SELECT {', '.join(shown)} {self._from_clause(block)}"

    def _from_clause(self, block: Select) -> str:
        conditions = guarded(block.conditions) if len(block.items) > 1 else block.conditions
        return self.dialect.from_clause(block.items, conditions)

    def _present(self, block: Select) -> FromItem:
        """The rows of positive net weight, each once, with it."""
        names = names_of(len(block.outputs))
        body = self._select_text(block, names, WEIGHT)
        listed = "".join(f"{name}, " for name in names)
        grouped = f" GROUP BY {', '.join(names)}" if names else ""
        query = (
            f"SELECT {listed}CAST(SUM({WEIGHT}) AS BIGINT) AS {WEIGHT} FROM ({body}) AS {self._alias()}{grouped} "
            f"HAVING SUM({WEIGHT}) > 0"
        )
        return FromItem(f"({query})", names, WEIGHT)

    def _repeated(self, block: Select) -> Select:
        """Each row as often as its weight says, with weight +1 or −1: something is to be summed."""
        names, alias = names_of(len(block.outputs)), self._alias()
        query = self._select_text(block, names, WEIGHT)
        source = FromItem(self.dialect.repeated(query, alias, WEIGHT), names, WEIGHT)
        outputs = tuple(Output(f"{alias}.{name}", frozenset({alias})) for name in names)
        return Select((Item("", source),), (), outputs, (f"SIGN({alias}.{WEIGHT})",))

    def expression(self, expression: Expression, outputs: tuple[Output, ...]) -> str:
        return self._output(expression, outputs).text

    def _output(self, expression: Expression, outputs: tuple[Output, ...]) -> Output:
        return output_of(expression, outputs, self.dialect)

    def _alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"


def product(left: Select, right: Select) -> Select:
    """The block of all pairs of rows."""
    return Select(
        left.items + right.items,
        left.conditions + right.conditions,
        left.outputs + right.outputs,
        left.weights + right.weights,
        left.sign * right.sign,
    )


def join_in_order(items: tuple[Item, ...], conditions: tuple[Condition, ...]) -> str:
    """FROM with explicit joins, small sources first, then whatever shares a condition with what is there already."""
    pending, waiting = list(items), list(conditions)
    pending.sort(key=lambda item: not item.source.small)
    first = pending.pop(0)
    text, present = f"FROM {_item_text(first)}", {first.alias}
    while pending:
        item = pending.pop(next_position(pending, present, waiting))
        present.add(item.alias)
        ready = [condition for condition in waiting if condition.aliases <= present and condition.aliases]
        waiting = [condition for condition in waiting if condition not in ready]
        on = " AND ".join(condition.text for condition in ready)
        text += f" JOIN {_item_text(item)} ON {on}" if on else f" CROSS JOIN {_item_text(item)}"
    if waiting:
        text += " WHERE " + " AND ".join(condition.text for condition in waiting)
    return text


def next_position(pending: Sequence[Item], present: Set[str], waiting: Iterable[Condition]) -> int:
    """The first item that shares a condition with what is there already, so that no product is formed early."""
    return next((i for i, item in enumerate(pending) if _connected(item, present, waiting)), 0)


def _connected(item: Item, present: Set[str], waiting: Iterable[Condition]) -> bool:
    return any(
        item.alias in condition.aliases and condition.aliases - {item.alias} <= present and len(condition.aliases) > 1
        for condition in waiting
    )


def _item_text(item: Item) -> str:
    return f"{item.source.text} AS {item.alias}" if item.alias else item.source.text


def names_of(count: int) -> tuple[str, ...]:
    """The names of as many columns, in any query."""
    return tuple(f"c{i}" for i in range(count))
