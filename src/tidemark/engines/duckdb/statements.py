"""Plans as statements: their texts, which are kept for plans that come again, and their results as Arrow tables.

Evaluating for audits: by plain statements on a connection of their own, with few rules of the optimizer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import duckdb
import pyarrow as pa

from tidemark.algebra.expressions import Column
from tidemark.algebra.plans import Given, Plan, Project, Stored, walk
from tidemark.engines.duckdb.dialect import DuckDBDialect, translated
from tidemark.engines.duckdb.embedded import GivenTables
from tidemark.engines.duckdb.settings import RULES_OF_AUDITS, configure, use
from tidemark.engines.engine import ByTables, Iteration
from tidemark.engines.limits import DuckDBLimits
from tidemark.engines.sqltext.compiler import Compiler, given_to, iteration_text
from tidemark.storage import delta as delta_tables

STATEMENTS_KEPT: Final = 2_048
"""Beyond so many, those that were not used for longest are let go."""
_TOKEN: Final = uuid.uuid4().hex
_Form: TypeAlias = Callable[[Compiler, Plan], str]


class Statements:
    """Runs plans over stored relations, whose tables ``table_of`` names, and over what is given. ``ready`` is told
    before a statement which relations it reads."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        given: GivenTables,
        table_of: Callable[[str], str],
        ready: Callable[[Iterable[str]], None],
    ) -> None:
        self._connection, self._given, self._table_of, self._ready = connection, given, table_of, ready
        self._kept: dict[tuple[int, _Form], tuple[Plan, str, tuple[str, ...], frozenset[str]]] = {}

    def forget(self) -> None:
        """Relations have changed: texts name tables and their columns."""
        self._kept.clear()

    def as_merged(self, plan: Plan) -> pa.Table:
        """The net rows of a plan to which nothing is given, over the tables as they are, whatever is not merged yet."""
        return self._fetched(lambda: self._statement(plan, Compiler.weighted)[0], plan.schema.weighted)

    def weighted(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        """The plan's net rows by one statement."""
        chosen = _columns_given(plan, given)
        if chosen is not None:
            return delta_tables.net(chosen.rename_columns(plan.schema.weighted.names).cast(plan.schema.weighted))
        if not any(isinstance(part, Given) for part in walk(plan)):
            return self._run(plan, given, Compiler.weighted, plan.schema.weighted)
        # What follows from deltas is mostly small: it is made net here, which spares DuckDB the outer grouping.
        return delta_tables.net(self._run(plan, given, Compiler.entries, plan.schema.weighted))

    def rows(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        """The plan's rows, equal rows repeated, in order if the plan sorts."""
        return self._run(plan, given, Compiler.rows, plan.schema.arrow)

    def text_of_rows(self, plan: Plan, given: Mapping[str, pa.Table]) -> str:
        """The statement for the plan's rows."""
        return self._text(plan, given, Compiler.rows)

    def iterated(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of a set that an iteration reaches, each with weight one."""
        needed = given_to(iteration, given)
        schema = iteration.first.schema.weighted
        names = dict(zip(needed, self._given.names_of(list(needed.values())), strict=True))
        compiler = Compiler(DuckDBDialect(self._table_of, names))
        self._ready(part.relation for plan in iteration.plans for part in walk(plan) if isinstance(part, Stored))
        return self._fetched(lambda: iteration_text(compiler, iteration, in_place=True), schema)

    def _run(self, plan: Plan, given: Mapping[str, pa.Table], form: _Form, schema: pa.Schema) -> pa.Table:
        return self._fetched(lambda: self._text(plan, given, form), schema)

    def _fetched(self, text: Callable[[], str], schema: pa.Schema) -> pa.Table:
        """What a statement gives; in its text what is given has been registered."""
        try:
            result = self._connection.sql(text()).to_arrow_table()
        except duckdb.Error as error:
            raise translated(error) from error
        return result.rename_columns(schema.names).cast(schema)

    def _text(self, plan: Plan, given: Mapping[str, pa.Table], form: _Form) -> str:
        """The statement of a plan, with the names under which its deltas are registered now."""
        text, needed, read = self._statement(plan, form)
        self._ready(read)
        for position, registered in enumerate(self._given.names_of([given[name] for name in needed])):
            text = text.replace(_placeholder(position), registered)
        return text

    def _statement(self, plan: Plan, form: _Form) -> tuple[str, tuple[str, ...], frozenset[str]]:
        """The SQL of a plan, the deltas it needs and the relations it reads; kept for plans that come again (the
        network's do)."""
        key = (id(plan), form)
        kept = self._kept.pop(key, None)
        if kept is None:
            needed = tuple(dict.fromkeys(part.name for part in walk(plan) if isinstance(part, Given)))
            names = {name: _placeholder(position) for position, name in enumerate(needed)}
            text = form(Compiler(DuckDBDialect(self._table_of, names)), plan)
            # The plan is kept too, so that its identity cannot be taken by another one.
            read = frozenset(part.relation for part in walk(plan) if isinstance(part, Stored))
            kept = (plan, text, needed, read)
        self._kept[key] = kept  # behind all others: the first is the one that was not used for longest
        if len(self._kept) > STATEMENTS_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept[1:]


def _columns_given(plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table | None:
    """The rows of a plan that only chooses columns of what is given, and needs no statement for it."""
    match plan:
        case Given(name=name):
            return given[name]
        case Project(input=Given(name=name), expressions=expressions):
            indices = [expression.index for expression in expressions if isinstance(expression, Column)]
            if len(indices) == len(expressions):
                return given[name].select([*indices, given[name].num_columns - 1])
    return None


def _placeholder(position: int) -> str:
    """What stands in a kept statement for a delta's name: nothing that a user's text could hold."""
    return f"given_{_TOKEN}_{position}_"


@dataclass(frozen=True)
class Plain(ByTables):
    """Every plan is one statement, recursion too; nothing is looked up, interpreted or kept."""

    statements: Statements
    count: Callable[[str], int]
    limits: DuckDBLimits

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self.statements.weighted(plan, given)

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        return True

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        return self.statements.iterated(iteration, given)

    def rows(self, relation: str) -> int:
        return self.count(relation)


@contextmanager
def few_rules(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Meanwhile only those rules run that keep joins from being products.

    DuckDB has one setting for all connections to a database. What others run meanwhile takes longer, at most.
    """
    use(connection, RULES_OF_AUDITS)
    try:
        yield
    finally:
        configure(connection)


@contextmanager
def plain(
    connection: duckdb.DuckDBPyConnection,
    table_of: Callable[[str], str],
    count: Callable[[str], int],
    limits: DuckDBLimits,
) -> Iterator[Plain]:
    """``connection`` is one for this alone, and is closed at the end."""
    try:
        with few_rules(connection):
            yield Plain(Statements(connection, GivenTables(connection), table_of, lambda read: None), count, limits)
    finally:
        connection.close()
