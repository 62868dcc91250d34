"""Binding CREATE RULE, and a rule for given values of its parameters.

What tells the derivations of one row apart, for rules that fire whenever one is added.

A derivation of π[e] E is a row of E, in the columns that e and the selections and joins in E read. So an instance that
one derivation leaves and another one enters has a derivation added, though its multiplicity is what it was. Plain
views, queries in FROM and the parts of a UNION are looked into; rows of a DISTINCT, a grouping or a
subquery inside, and those of stored relations, are taken as they are. So is a union of which some parts are taken away
(an outer join has such a one): they must meet what they are taken from.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from sqlglot import exp

from tidemark.algebra.expressions import Expression, Literal, columns_of, substitute
from tidemark.algebra.plans import (
    Distinct,
    Filter,
    Join,
    Negate,
    Plan,
    Project,
    Scan,
    Union,
    Values,
    given_name,
    relations_of,
    walk,
)
from tidemark.algebra.types import INT, TIMESTAMP, VARCHAR, Field, Schema
from tidemark.sql.bind.changes import BoundChange, bind_delete, bind_insert, bind_update, table_name
from tidemark.sql.bind.queries import QueryBinder, check_output
from tidemark.sql.catalog.catalog import RULE_TABLES, Catalog, View
from tidemark.sql.catalog.columns import narrowed, widened
from tidemark.sql.catalog.rules import DEFERRED, DETACHED, IMMEDIATE, INDEPENDENT, NERVOUS, STRICT, Activation, Rule
from tidemark.sql.functions.intervals import interval_of
from tidemark.sql.parse.rules import Action, CreateRule, DatabaseEvent, SignalEvent, TimeEvent
from tidemark.sql.parse.text import Source, parse, tokenize


def derivations(plan: Plan) -> Plan:
    """The rows of a query with further columns behind them, which tell their derivations apart."""
    plan = plan.input if isinstance(plan, Distinct) else plan
    return _opened(plan, set(range(len(plan.schema))))


def _opened(plan: Plan, read: set[int]) -> Plan:
    """A plan of which some columns are read, with what tells its rows apart behind them."""
    match plan:
        case Project(input=source, names=names, expressions=expressions):
            used = {i for place in read for i in columns_of(expressions[place])} | _tested(source)
            inner = _opened(source, used)
            more = [*sorted(used), *range(len(source.schema), len(inner.schema))]
            return _wider(inner, names, expressions, [inner.column(i) for i in more])
        case Filter(input=source):
            return plan.with_inputs((_opened(source, read),))
        case Join():
            return _opened_join(plan, read)
        case Union(parts=parts) if not any(isinstance(inner, Negate) for part in parts for inner in walk(part)):
            return _opened_union(plan, [_opened(part, read) for part in parts])
    return plan


def _opened_join(plan: Join, read: set[int]) -> Plan:
    own, both = len(plan.left.schema), len(plan.schema)
    left = _opened(plan.left, {i for i in read if i < own})
    right = _opened(plan.right, {i - own for i in read if i >= own})
    width = len(left.schema)
    if width == own and len(right.schema) == both - own:
        return plan
    places = [*range(own), *range(width, width + both - own)]
    columns = Join(left, right, Literal(True, plan.predicate.type)).columns()
    joined = Join(left, right, substitute(plan.predicate, tuple(columns[i] for i in places)))
    others = [column for i, column in enumerate(columns) if i not in places]
    return _wider(joined, plan.schema.names, tuple(columns[i] for i in places), others)


def _opened_union(plan: Union, parts: list[Plan]) -> Plan:
    """Each part has columns of its own behind those of the union, and the number of the part before them."""
    width = len(plan.schema)
    types = [field.type for part in parts for field in part.schema.fields[width:]]
    wider, start = list[Plan](), 0
    for number, part in enumerate(parts):
        others: list[Expression] = [Literal(None, type_) for type_ in types]
        more = part.columns()[width:]
        others[start : start + len(more)] = more
        start += len(more)
        wider.append(_wider(part, plan.schema.names, part.columns()[:width], [Literal(number, INT), *others]))
    return Union(tuple(wider))


def _wider(plan: Plan, names: tuple[str, ...], own: tuple[Expression, ...], more: Sequence[Expression]) -> Plan:
    further = tuple(f"_{i}" for i in range(len(own), len(own) + len(more)))
    return Project(plan, (*names, *further), (*own, *more))


def _tested(plan: Plan) -> set[int]:
    """The columns that the selections and joins on top of a plan look at."""
    match plan:
        case Filter(input=source, predicate=predicate):
            return _tested(source) | columns_of(predicate)
        case Join(left=left, right=right, predicate=predicate):
            width = len(left.schema)
            return _tested(left) | {i + width for i in _tested(right)} | columns_of(predicate)
    return set()


Tree = TypeVar("Tree", bound=exp.Expr)
CONDITION: Final = "condition"
SIGNAL: Final = "signal"
SIGNAL_SCHEMA: Final = Schema((Field("name", VARCHAR), Field("payload", VARCHAR), Field("time", TIMESTAMP)))
NOTHING_SEEN: Final[Mapping[str, int]] = {}
COUPLINGS: Final = (IMMEDIATE, DEFERRED, DETACHED, INDEPENDENT)
LONGEST: Final = dt.timedelta(days=36525)
_EVENT_ROW: Final = Schema((Field("event", INT, nullable=False),))


def bind_rule(statement: CreateRule, catalog: Catalog, source: Source, seen: Mapping[str, int] | None = None) -> Rule:
    """The rule that CREATE RULE defines, inactive. Names and types are checked with NULL for each parameter.

    ``seen`` has the numbers of columns that it saw when it was first created; by default it sees all there are.
    """
    source, seen = replace(source, now=None), seen or {}
    options = _options(statement, source)
    for event in statement.all_events:
        if isinstance(event, DatabaseEvent):
            _check_event(event, catalog, source)
    for event in statement.all_events:
        if isinstance(event, TimeEvent):
            first_time(event, dt.datetime.min, source)
    if statement.last and all(isinstance(event, TimeEvent) for event in statement.all_events):
        raise source.error("unsupported", "a sequence of times alone has nothing to wait for", hint="EVERY 'interval'")
    if statement.delay is not None and any(isinstance(event, TimeEvent) for event in statement.all_events):
        raise source.error("unsupported", "AFTER an interval takes an event on a table or view, or a signal")
    given = transition_schemas(statement, narrowed(catalog, seen))
    arguments = ("NULL",) * len(statement.parameters)
    probe = bind_activation(statement, arguments, given, catalog, source, options["semantics"], seen)
    schema = probe.condition.schema
    for name in statement.each:
        if name not in schema.names:
            raise source.error(
                "unknown_column", f"WHEN has no column {name!r}", hint=f"columns: {', '.join(schema.names)}"
            )
    identity = tuple(schema.position(name) for name in statement.each) or tuple(range(len(schema)))
    if not statement.parameters:  # otherwise their types are known when the rule is activated
        check_actions(probe, catalog, given, source)
    changes = frozenset((a.key, _target(a, source)) for a in probe.actions if isinstance(a, exp.Expr))
    writes = frozenset(table for _, table in changes)
    events = {e.relation for e in statement.all_events if isinstance(e, DatabaseEvent)}
    named = _named(statement, catalog, given) | events
    reads = frozenset(relations_of(probe.condition)) - set(map(given_name, given))
    if options["coupling"] == IMMEDIATE and (reads | events) & set(RULE_TABLES):
        raise source.error("unsupported", "what rules did is seen at the end of a transaction: coupling = 'deferred'")
    counts = {name: len(narrowed(catalog, seen).relations[name].schema) for name in sorted(named)}
    return Rule(
        statement.name,
        statement.text,
        source.dialect,
        statement.events,
        schema,
        identity,
        statement.when is not None,
        named | writes,
        reads,
        changes,
        tuple(given.items()),
        tuple(counts.items()),
        statement.parameters,
        delay=None if statement.delay is None else span_of(statement.delay, source),
        last=statement.last,
        is_closure=statement.is_closure,
        action_reads=_action_reads(probe, catalog, given),
        **options,
    )


def span_of(text: str, source: Source) -> dt.timedelta:
    """An interval of a fixed length, and longer than nothing."""
    interval = interval_of(text)
    months, days, microseconds = (part.value if isinstance(part, Literal) else None for part in interval.parts)
    if months != 0 or not isinstance(days, int) or not isinstance(microseconds, int):
        raise source.error("unsupported", f"the interval {text!r} has no fixed length", hint="weeks, days, hours …")
    found = dt.timedelta(days=days, microseconds=microseconds)
    if found <= dt.timedelta(0):
        raise source.error("unsupported", f"the interval {text!r} is not longer than nothing")
    if found > LONGEST:
        raise source.error("unsupported", f"the interval {text!r} is longer than a hundred years")
    return found


def first_time(event: TimeEvent, now: dt.datetime, source: Source) -> dt.datetime:
    """When a temporal event happens first, for a rule that is activated now."""
    if event.kind == "every":
        return now + span_of(event.text, source)
    try:
        time = dt.datetime.fromisoformat(event.text)
        return time if time.tzinfo is None else time.astimezone(dt.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError) as error:
        raise source.error(
            "syntax", f"AT takes a time: {event.text!r} is none", hint="AT '2030-01-31 08:00'"
        ) from error


def check_actions(activation: Activation, catalog: Catalog, given: Mapping[str, Schema], source: Source) -> None:
    """Refuse actions that cannot be bound."""
    for action in activation.actions:
        if isinstance(action, exp.Expr):
            bind_action(action, catalog, given, activation.condition.schema, source)


def _target(action: exp.Expr, source: Source) -> str:
    """The table that an action changes."""
    return table_name(action.this.this if isinstance(action.this, exp.Schema) else action.this, source)


def bind_activation(
    statement: CreateRule,
    arguments: tuple[str, ...],
    given: Mapping[str, Schema],
    catalog: Catalog,
    source: Source,
    semantics: str,
    seen: Mapping[str, int] = NOTHING_SEEN,
) -> Activation:
    """The rule for given values of its parameters."""
    if len(arguments) != len(statement.parameters):
        raise source.error(
            "type", f"the rule {statement.name!r} has {len(statement.parameters)} parameters, not {len(arguments)}"
        )
    values = dict(zip(statement.parameters, arguments, strict=True))
    actions = tuple(_with(a, values, source) if isinstance(a, exp.Expr) else a for a in statement.actions)
    if statement.when is None:
        plan: Plan = Values(((1,),), _EVENT_ROW)
        return Activation(statement.name, arguments, plan, plan, frozenset(), actions)
    binder = QueryBinder(replace(source, now=None), with_given(narrowed(catalog, seen), given))
    plan = widened(binder.bind_view(_with(statement.when, values, source)), with_given(catalog, given))
    check_output(plan.schema, source)
    watched = derivations(plan) if semantics == NERVOUS else plan
    transitions = relations_of(plan) & set(map(given_name, given))
    return Activation(statement.name, arguments, plan, watched, transitions, actions)


def with_given(catalog: Catalog, given: Mapping[str, Schema]) -> Catalog:
    """The catalog as the texts of a rule see it: with the relations that stand for what happened. A table of the same
    name is hidden from the rule, but not from the views that it names."""
    for name, schema in given.items():
        catalog = catalog.with_relation(View(name, Scan(given_name(name), schema), "", materialized=False))
    return catalog


def transition_schemas(statement: CreateRule, catalog: Catalog) -> dict[str, Schema]:
    """The transition relations: inserted, deleted and updated of the event's relation, with its name behind them if
    there are several; and signal."""
    events = [event for event in statement.all_events if isinstance(event, DatabaseEvent)]
    relations = list(dict.fromkeys(event.relation for event in events))
    found: dict[str, Schema] = {}
    for name in relations:
        schema = catalog.relations[name].schema
        nullable = Schema(tuple(replace(f, nullable=True) for f in schema))
        old = tuple(replace(f, name=f"old_{f.name}") for f in nullable)
        new = tuple(replace(f, name=f"new_{f.name}") for f in nullable)
        ending = f"_{name}" if len(relations) > 1 else ""
        found |= {f"inserted{ending}": nullable, f"deleted{ending}": nullable, f"updated{ending}": Schema(old + new)}
    if any(isinstance(event, SignalEvent) for event in statement.all_events):
        found[SIGNAL] = SIGNAL_SCHEMA
    return found


def bind_action(
    action: Action, catalog: Catalog, given: Mapping[str, Schema], schema: Schema, source: Source
) -> BoundChange:
    """A DML statement of a rule, over ``condition`` and the transition relations."""
    seen = with_given(catalog, {**given, CONDITION: schema})
    assert isinstance(action, exp.Expr)
    target = _target(action, source)
    if target in given or target == CONDITION:
        raise source.error("not_a_table", f"{target!r} cannot be changed: it says what happened")
    match action:
        case exp.Insert():
            return bind_insert(action, seen, source)
        case exp.Update():
            return bind_update(action, seen, source)
    assert isinstance(action, exp.Delete)
    return bind_delete(action, seen, source)


def _with(tree: Tree, values: Mapping[str, str], source: Source) -> Tree:
    """A tree with the parameters replaced by their values."""
    if not any(True for _ in tree.find_all(exp.Placeholder)):
        return tree
    tree = tree.copy()
    for node in list(tree.find_all(exp.Placeholder)):
        if node.name not in values:
            known = ", ".join(f":{name}" for name in values) or "none"
            raise source.error("unknown_parameter", f"the rule has no parameter :{node.name}", hint=f"it has {known}")
        text = Source(values[node.name], source.dialect)
        node.replace(exp.paren(parse(text, tokenize(text))))
    return tree


def _named(statement: CreateRule, catalog: Catalog, given: Mapping[str, Schema]) -> frozenset[str]:
    """The relations that the texts of a rule name."""
    trees = [tree for tree in (statement.when, *statement.actions) if isinstance(tree, exp.Expr)]
    return _known((table for tree in trees for table in tree.find_all(exp.Table)), catalog, given)


def _action_reads(probe: Activation, catalog: Catalog, given: Mapping[str, Schema]) -> frozenset[str]:
    """The relations that the actions of a rule read, be it to find the rows that they change."""
    found: list[exp.Table] = []
    for action in probe.actions:
        if isinstance(action, exp.Expr):
            target = action.this.this if isinstance(action.this, exp.Schema) else action.this
            is_filled = isinstance(action, exp.Insert)
            found += [table for table in action.find_all(exp.Table) if not (is_filled and table is target)]
    return _known(found, catalog, {**given, CONDITION: _EVENT_ROW})


def _known(tables: Iterable[exp.Table], catalog: Catalog, given: Mapping[str, Schema]) -> frozenset[str]:
    names = {table.name for table in tables}
    folded = {name if name in catalog.relations else name.lower() for name in names}
    return frozenset(name for name in folded if name in catalog.relations and name not in given)


def _check_event(event: DatabaseEvent, catalog: Catalog, source: Source) -> None:
    relation = catalog.get(event.relation)
    if relation is None:
        raise source.error(
            "unknown_relation", f"there is no relation {event.relation!r}", hint=catalog.suggestions(event.relation)
        )
    if isinstance(relation, View) and not relation.is_logged:
        raise source.error(
            "not_materialized",
            f"{event.relation!r} is a plain view: its changes are not followed",
            hint="CREATE MATERIALIZED VIEW, or use a condition (WHEN) without an event",
        )
    for column in event.columns:
        if column not in relation.schema.names:
            columns = ", ".join(relation.schema.names)
            raise source.error(
                "unknown_column", f"{event.relation!r} has no column {column!r}", hint=f"columns: {columns}"
            )


def _options(statement: CreateRule, source: Source) -> dict[str, Any]:
    found: dict[str, Any] = {"semantics": STRICT, "coupling": DEFERRED, "action_coupling": IMMEDIATE}
    for key, text in statement.options.items():
        known = _OPTIONS.get(key)
        if known is None:
            raise source.error(
                "unsupported", f"the option {key!r} is not known", hint=f"options: {', '.join(sorted(_OPTIONS))}"
            )
        try:
            found[key] = known(text)
        except ValueError as error:
            raise source.error("unsupported", f"{key} = {text!r} is not possible: {error}") from error
    if found["coupling"] == DEFERRED and found["action_coupling"] == IMMEDIATE:
        found["action_coupling"] = DEFERRED
    return found


def _one_of(*values: str) -> Callable[[str], str]:
    def chosen(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"one of {', '.join(values)}")
        return text.lower()

    return chosen


def _whole(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.removeprefix("-").isdecimal() or not least <= int(text) < 2**31:
            raise ValueError(f"a whole number from {least} on")
        return int(text)

    return number


def _seconds(*, is_zero_possible: bool) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = -1.0
        if not 0 <= found <= LONGEST.total_seconds() or (found == 0 and not is_zero_possible):
            raise ValueError("a number of seconds, 0 or more" if is_zero_possible else "a number of seconds above 0")
        return found

    return number


def _group(text: str) -> str:
    if not text:
        raise ValueError("a name")
    return text


_OPTIONS: Final[dict[str, Callable[[str], Any]]] = {
    "semantics": _one_of(STRICT, NERVOUS),
    "coupling": _one_of(*COUPLINGS),
    "action_coupling": _one_of(*COUPLINGS),
    "priority": _whole(1 - 2**31),
    "cascade_limit": _whole(1),
    "group": _group,
    "retries": _whole(0),
    "backoff": _seconds(is_zero_possible=True),
    "timeout": _seconds(is_zero_possible=False),
}
