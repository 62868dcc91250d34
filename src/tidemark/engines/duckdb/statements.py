"""Plans as statements: their texts, which are kept for plans that come again, and their results as Arrow tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import duckdb
import pyarrow as pa

from tidemark.algebra.expressions import Column
from tidemark.algebra.plans import Given, Plan, Project, walk
from tidemark.engines.base import Iteration
from tidemark.engines.duckdb.dialect import DuckDBDialect
from tidemark.engines.duckdb.errors import translated
from tidemark.engines.duckdb.given import GivenTables
from tidemark.engines.sqlrecursion import given_to, iteration_text
from tidemark.engines.sqltext import Compiler
from tidemark.log import deltas as delta_tables

STATEMENTS_KEPT: Final = 512
_TOKEN: Final = uuid.uuid4().hex
_Form: TypeAlias = Callable[[Compiler, Plan], str]


class Statements:
    """Runs plans over stored relations, whose tables ``table_of`` names, and over what is given."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, given: GivenTables, table_of: Callable[[str], str]
    ) -> None:
        self._connection, self._given, self._table_of = connection, given, table_of
        self._kept: dict[tuple[int, _Form], tuple[Plan, str, tuple[str, ...]]] = {}

    def forget(self) -> None:
        """Relations have changed: texts name tables and their columns."""
        self._kept.clear()

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
        text, needed = self._statement(plan, form)
        for position, registered in enumerate(self._given.names_of([given[name] for name in needed])):
            text = text.replace(_placeholder(position), registered)
        return text

    def _statement(self, plan: Plan, form: _Form) -> tuple[str, tuple[str, ...]]:
        """The SQL of a plan and the deltas it needs; kept for plans that come again (the network's do)."""
        key = (id(plan), form)
        kept = self._kept.get(key)
        if kept is None:
            needed = tuple(dict.fromkeys(part.name for part in walk(plan) if isinstance(part, Given)))
            names = {name: _placeholder(position) for position, name in enumerate(needed)}
            text = form(Compiler(DuckDBDialect(self._table_of, names)), plan)
            if len(self._kept) >= STATEMENTS_KEPT:
                self._kept.clear()
            # The plan is kept too, so that its identity cannot be taken by another one.
            kept = self._kept[key] = (plan, text, needed)
        return kept[1], kept[2]


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
