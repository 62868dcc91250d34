"""Binding GROUP BY: keys, aggregates, and the rule that everything else must be made of them.

GROUPING SETS, ROLLUP and CUBE are a union of groupings:

    γ[sets S1, S2, …; f](E) = ⊎ π[keys of Si, NULL for the others, i, f] γ[Si; f](E)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, product

from sqlglot import exp

from tidemark.algebra.expressions import Call, Case, Column, Expression, FieldOf, Literal, columns_of
from tidemark.algebra.plans import Aggregate, AggregateCall, Plan, Project, Union
from tidemark.algebra.types import BOOLEAN, INT, Kind
from tidemark.errors import TidemarkError
from tidemark.sql.bind.aggregates import bind_aggregate
from tidemark.sql.bind.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.bind.lowering import attached, filtered
from tidemark.sql.bind.parameters import Parameter, has_subquery, parameters_in
from tidemark.sql.bind.scope import Scope
from tidemark.sql.bind.syntax import Item, behind, find_aggregate, is_aggregate, output_name, star_of
from tidemark.sql.bind.windows import Windows, windowed
from tidemark.sql.parse.text import Source, fold

MOST_SETS = 64

Set = tuple[int, ...]


@dataclass(frozen=True)
class GroupingSets:
    """All keys of a GROUP BY, and the sets of them by which rows are grouped; most often one set with all."""

    keys: tuple[Expression, ...]
    sets: tuple[Set, ...]

    @property
    def are_several(self) -> bool:
        return self.sets != (tuple(range(len(self.keys))),)

    @property
    def width(self) -> int:
        """How many columns stand before the aggregates: the keys, and the number of the set if there are several."""
        return len(self.keys) + (1 if self.are_several else 0)

    def grouped(self, plan: Plan, names: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> Plan:
        named = tuple(call.function.value for call in calls)
        if not self.are_several:
            return Aggregate(plan, names + named, self.keys, calls)
        parts = []
        for number, chosen in enumerate(self.sets):
            grouping = Aggregate(
                plan, tuple(names[i] for i in chosen) + named, tuple(self.keys[i] for i in chosen), calls
            )
            cells: list[Expression] = [
                grouping.column(chosen.index(i)) if i in chosen else Literal(None, key.type)
                for i, key in enumerate(self.keys)
            ]
            cells += [Literal(number, INT), *grouping.columns()[len(chosen) :]]
            parts.append(Project(grouping, (*names, "grouping_set", *named), tuple(cells)))
        return Union(tuple(parts))

    def grouping(self, positions: tuple[int, ...]) -> Expression:
        """The value of GROUPING for keys at these positions."""
        if not self.are_several:
            return Literal(0, INT)
        number = Column(len(self.keys), "grouping_set", INT, nullable=False)
        branches = tuple(
            (Call("eq", (number, Literal(i, INT)), BOOLEAN, nullable=False), Literal(_bits(positions, chosen), INT))
            for i, chosen in enumerate(self.sets)
        )
        return Case(branches, Literal(0, INT), INT)


def _bits(positions: tuple[int, ...], chosen: Set) -> int:
    value = 0
    for position in positions:
        value = value * 2 + (0 if position in chosen else 1)
    return value


def sets_of(entries: list[exp.Expr], position: Callable[[exp.Expr], int], source: Source) -> tuple[Set, ...]:
    """The sets of a GROUP BY: entries side by side combine each of their sets with each of the others'."""
    choices = [_entry(entry, position, source) for entry in entries]
    sets = [tuple(dict.fromkeys(i for part in chosen for i in part)) for chosen in product(*choices)]
    if len(sets) > MOST_SETS:
        raise source.error(
            "unsupported", f"GROUP BY has {len(sets)} grouping sets; {MOST_SETS} are the most", entries[0]
        )
    return tuple(tuple(sorted(chosen)) for chosen in sets)


def _entry(entry: exp.Expr, position: Callable[[exp.Expr], int], source: Source) -> list[Set]:
    match entry:
        case exp.Rollup():
            units = [_unit(part, position) for part in entry.expressions]
            return [_together(units[:length]) for length in range(len(units), -1, -1)]
        case exp.Cube():
            units = [_unit(part, position) for part in entry.expressions]
            sizes = range(len(units), -1, -1)
            return [_together(list(chosen)) for size in sizes for chosen in combinations(units, size)]
        case exp.GroupingSets():
            return [found for part in entry.expressions for found in _entry(part, position, source)]
        case exp.Tuple() | exp.Paren():
            return [_unit(entry, position)]
    return [(position(entry),)]


def _unit(entry: exp.Expr, position: Callable[[exp.Expr], int]) -> Set:
    match entry:
        case exp.Tuple():
            return tuple(position(part) for part in entry.expressions)
        case exp.Paren():
            return _unit(entry.this, position)
    return (position(entry),)


def _together(units: list[Set]) -> Set:
    return tuple(i for unit in units for i in unit)


class GroupBinder:
    """Collects the aggregates of one grouped query and binds expressions over keys and aggregates.

    The grouping's columns are the keys, then the number of the grouping set if there are several, then the calls.
    """

    def __init__(self, inner: ExpressionBinder, sets: GroupingSets, names: tuple[str, ...], windows: Windows) -> None:
        self.source, self.sets, self.keys, self.names = inner.source, sets, sets.keys, names
        self.aggregates: list[AggregateCall] = []
        self._inner = inner
        self.outer = windowed(replace(inner, hook=self._hook), windows)

    def _hook(self, node: exp.Expr) -> Expression | None:
        """An aggregate or a grouping key as a column of the grouping; a bare column that is neither is refused."""
        if isinstance(node, exp.Grouping):
            return self._grouping(node)
        if is_aggregate(node):
            return bind_aggregate(node, self._inner, self._call)
        if find_aggregate(node) is not None or isinstance(node, exp.Literal | exp.Null | exp.Boolean):
            return None
        if node.find(exp.Query) is not None and not any(map(has_subquery, self.keys)):
            return None
        bound = self._inner.bind(node)
        if isinstance(bound, Parameter):
            return bound
        if bound in self.keys:
            position = self.keys.index(bound)
            return Column(position, self.names[position], bound.type, bound.nullable or self.sets.are_several)
        if isinstance(node, exp.Column) and not isinstance(bound, FieldOf):  # of a field, the struct is looked at
            raise self.source.error(
                "grouping",
                f"the column {fold(node.this)!r} is neither grouped nor aggregated",
                node,
                hint="add it to GROUP BY, or use it inside an aggregate",
            )
        return None

    def _grouping(self, node: exp.Grouping) -> Expression:
        """GROUPING(a, b): a bit for each argument that the row's grouping set leaves out, the last one lowest."""
        refuse_other_parts(node, ("expressions",), self.source)
        positions = []
        for part in node.expressions:
            bound = self._inner.bind(part)
            if bound not in self.keys:
                raise self.source.error("grouping", "GROUPING takes expressions of GROUP BY", part)
            positions.append(self.keys.index(bound))
        return self.sets.grouping(tuple(positions))

    def _call(self, call: AggregateCall) -> Column:
        """The column in which the grouping gives a call; equal calls are one."""
        if call.argument is not None and parameters_in(call.argument) and not columns_of(call.argument):
            name = call.function.value.upper()
            message = f"{name} of outer columns alone belongs to the query around, which is not supported"
            raise TidemarkError("unsupported", message, hint="aggregate in the outer query itself")
        if call not in self.aggregates:
            self.aggregates.append(call)
        position = self.sets.width + self.aggregates.index(call)
        return Column(position, call.function.value, call.type, call.nullable)


def bind_grouped(node: exp.Select, plan: Plan, inner: ExpressionBinder) -> tuple[Plan, list[Item], ExpressionBinder]:
    """The grouping, the select list over it, and a binder for ORDER BY."""
    source = inner.source
    sets = _grouping_sets(node, inner)
    names = tuple(f"key{i + 1}" if not isinstance(k, Column) else k.name for i, k in enumerate(sets.keys))
    groups = GroupBinder(inner, sets, names, tuple(node.args.get("windows") or ()))
    items = []
    for position, entry in enumerate(node.expressions):
        if star_of(entry) is not None:
            raise source.error(
                "grouping", "* cannot stand beside GROUP BY or aggregates", entry, hint="name the columns"
            )
        items.append(Item(output_name(entry, position), entry, groups.outer.bind(entry.unalias())))
    having = node.args.get("having")
    condition = None if having is None else groups.outer.condition(having.this, "HAVING")
    for key in behind(node):  # so that aggregates that only these name are computed too
        if find_aggregate(key) is not None:
            groups.outer.bind(key)
    plan, keys, calls = _without_subqueries(plan, sets.keys, tuple(groups.aggregates))
    result = replace(sets, keys=keys).grouped(plan, names, calls)
    return (result if condition is None else filtered(result, condition)), items, groups.outer


def _without_subqueries(
    plan: Plan, keys: tuple[Expression, ...], calls: tuple[AggregateCall, ...]
) -> tuple[Plan, tuple[Expression, ...], tuple[AggregateCall, ...]]:
    """Subqueries in keys and arguments as columns of the plan below."""
    read = tuple(part for call in calls for part in call.expressions())
    plan, cells = attached(plan, keys + read)
    rest = iter(cells[len(keys) :])
    changed = tuple(call.with_expressions(tuple(next(rest) for _ in call.expressions())) for call in calls)
    return plan, cells[: len(keys)], changed


def _grouping_sets(node: exp.Select, binder: ExpressionBinder) -> GroupingSets:
    scope, source = binder.scope, binder.source
    group = node.args.get("group")
    if group is None:
        return GroupingSets((), ((),))
    refuse_other_parts(group, ("expressions",), source)
    keys: list[Expression] = []

    def position(entry: exp.Expr) -> int:
        chosen = _chosen(entry, node, scope, source)
        found = find_aggregate(chosen)
        if found is not None:
            raise source.error("grouping", "an aggregate cannot stand in GROUP BY", found)
        bound = binder.bind(chosen)
        if bound.type.kind is Kind.NULL:
            raise source.error("type", "NULL cannot be a grouping key", entry)
        if bound not in keys:
            keys.append(bound)
        return keys.index(bound)

    sets = sets_of(group.expressions, position, source)
    return GroupingSets(tuple(keys), sets)


def _chosen(entry: exp.Expr, node: exp.Select, scope: Scope, source: Source) -> exp.Expr:
    """GROUP BY 1 and GROUP BY alias mean an entry of the select list; a column of FROM goes before an alias."""
    if isinstance(entry, exp.Literal) and not entry.is_string:
        position = int(entry.name) if entry.name.isdigit() else 0
        if not 1 <= position <= len(node.expressions):
            raise source.error("grouping", f"GROUP BY {entry.name} names no entry of the select list", entry)
        chosen: exp.Expr = node.expressions[position - 1].unalias()
        return chosen
    if isinstance(entry, exp.Column) and entry.args.get("table") is None:
        name = fold(entry.this)
        if not any(visible.name == name for visible in scope.listed):
            for candidate in node.expressions:
                if isinstance(candidate, exp.Alias) and fold(candidate.args["alias"]) == name:
                    aliased: exp.Expr = candidate.this
                    return aliased
    return entry
