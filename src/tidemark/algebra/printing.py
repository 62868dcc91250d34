"""Plans as readable text, for EXPLAIN, errors and tests."""

from __future__ import annotations

from tidemark.algebra.cache import is_tangled
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    Difference,
    Distinct,
    Filter,
    Fixpoint,
    Given,
    Intersection,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Scan,
    Sort,
    SortKey,
    State,
    Stored,
    Touched,
    Union,
    Unnest,
    Values,
    Window,
)
from tidemark.algebra.text import show_expression as show_expression
from tidemark.algebra.text import show_value as show_value
from tidemark.algebra.windows import WindowCall


def show_aggregate(call: AggregateCall) -> str:
    if call.argument is None:
        return call.function.value
    inner = ("DISTINCT " if call.distinct else "") + show_expression(call.argument)
    if call.fraction is not None:
        inner = f"{call.fraction}, {inner}"
    if call.descending:
        inner += " DESC"
    if call.separator:
        inner += f", {show_value(call.separator)}"
    if call.order:
        inner += f" ORDER BY {_order(call.order)}"
    text = f"{call.function.value}({inner})"
    return text if call.condition is None else f"{text} FILTER (WHERE {show_expression(call.condition)})"


def show_window_call(call: WindowCall) -> str:
    inner = ", ".join(show_expression(argument) for argument in call.arguments)
    text = call.function.value if call.function.value.endswith(")") else f"{call.function.value}({inner})"
    text += " IGNORE NULLS" if call.ignores_nulls else ""
    return text if call.frame is None else f"{text} {call.frame}"


def _order(keys: tuple[SortKey, ...]) -> str:
    return ", ".join(_key(key) for key in keys)


def _key(key: SortKey) -> str:
    text = show_expression(key.expression) + (" DESC" if key.descending else "")
    if key.nulls_first == key.descending:
        return text
    return text + (" NULLS FIRST" if key.nulls_first else " NULLS LAST")


def show_plan(plan: Plan) -> str:
    """The plan as a tree, one node per line, inputs indented below.

    >>> from tidemark.algebra.types import INT, Field, Schema
    >>> print(show_plan(Distinct(Scan("t", Schema((Field("a", INT),))))))
    Distinct
    └─ t
    """
    lines: list[str] = []
    _show(plan, set() if is_tangled(plan) else None, lines, "", "")
    return "\n".join(lines)


def _show(plan: Plan, seen: set[int] | None, lines: list[str], before: str, below: str) -> None:
    """Add the lines of a plan, the first with one text before it, those below with another; with ``seen``, what stands
    in several places is shown in the first of them."""
    children = plan.inputs()
    if seen is not None and children:
        if id(plan) in seen:
            lines.append(f"{before}{show_node(plan)} … as above")
            return
        seen.add(id(plan))
    lines.append(before + show_node(plan))
    for position, child in enumerate(children):
        is_last = position == len(children) - 1
        _show(child, seen, lines, below + ("└─ " if is_last else "├─ "), below + ("   " if is_last else "│  "))


def show_node(plan: Plan) -> str:
    """One node without its inputs."""
    match plan:
        case Scan(relation=relation, state=state):
            return {State.NEW: relation, State.OLD: f"{relation}_old"}.get(state, f"{state.value}{relation}")
        case Stored(relation=relation):
            return f"stored {relation}"
        case Given(name=name):
            return f"given {name}"
        case Values(rows=rows):
            return f"Values [{', '.join('(' + ', '.join(map(show_value, row)) + ')' for row in rows)}]"
        case Filter(predicate=predicate):
            return f"Filter {show_expression(predicate)}"
        case Project(names=names, expressions=expressions):
            shown = (_named(n, show_expression(e)) for n, e in zip(names, expressions, strict=True))
            return f"Project {', '.join(shown)}"
        case Join(predicate=predicate):
            return f"Join {show_expression(predicate)}"
        case Touched(keys=keys):
            return f"Touched by ({', '.join(plan.schema[key].name for key in keys)})"
        case Aggregate(names=names, keys=keys, aggregates=aggregates):
            texts = [show_expression(key) for key in keys]
            calls = [_named(n, show_aggregate(a)) for n, a in zip(names[len(keys) :], aggregates, strict=True)]
            return f"Aggregate by ({', '.join(texts)}): {', '.join(calls) or 'nothing'}"
        case Sort(keys=sort_keys, limit=limit, offset=offset):
            tail = (f" limit {limit}" if limit is not None else "") + (f" offset {offset}" if offset else "")
            return f"Sort {_order(sort_keys)}{tail}"
        case Window(names=names, partition=partition, order=order, calls=window_calls):
            shown = (_named(n, show_window_call(c)) for n, c in zip(names, window_calls, strict=True))
            by = ", ".join(show_expression(part) for part in partition)
            ordered = f" in order of {_order(order)}" if order else ""
            return f"Window by ({by}){ordered}: {', '.join(shown)}"
        case Repeat(times=times):
            return f"Repeat {show_expression(times)} times"
        case Unnest(array=array, names=names):
            return f"Unnest {show_expression(array)} AS {', '.join(names)}"
        case Fixpoint(predicate=predicate, rules=rules):
            return f"Fixpoint of {predicate}: {' '.join(map(str, rules))}"
        case Union() | Negate() | Net() | Distinct() | Difference() | Intersection():
            return type(plan).__name__
    raise TypeError(f"not a plan: {plan!r}")


def _named(name: str, text: str) -> str:
    return name if name == text else f"{text} AS {name}"


def show_algebra(plan: Plan) -> str:
    """The plan on one line in the notation of the papers, for partial differentials.

    >>> from tidemark.algebra.expressions import TRUE
    >>> from tidemark.algebra.types import INT, Field, Schema
    >>> q, r = (Scan(name, Schema((Field("a", INT),)), state) for name, state in [("q", State.OLD), ("r", State.DELTA)])
    >>> show_algebra(Join(q, r, TRUE))
    '(q_old × Δr)'
    """
    match plan:
        case Filter(input=source, predicate=predicate):
            return f"σ[{show_expression(predicate)}] {show_algebra(source)}"
        case Project(input=source, names=names, expressions=expressions):
            shown = (_named(n, show_expression(e)) for n, e in zip(names, expressions, strict=True))
            return f"π[{', '.join(shown)}] {show_algebra(source)}"
        case Join(left=left, right=right, predicate=predicate):
            condition = show_expression(predicate)
            sign = "×" if condition == "TRUE" else f"⋈[{condition}]"
            return f"({show_algebra(left)} {sign} {show_algebra(right)})"
        case Touched(input=source, touched=touched):
            return f"({show_algebra(source)} ⋉ {show_algebra(touched)})"
        case Union(parts=parts):
            return "(" + " ⊎ ".join(show_algebra(part) for part in parts) + ")"
        case Difference(left=left, right=right):
            return f"({show_algebra(left)} ∸ {show_algebra(right)})"
        case Intersection(left=left, right=right):
            return f"({show_algebra(left)} ∩ {show_algebra(right)})"
        case Repeat(input=source, times=times):
            return f"repeat[{show_expression(times)}] {show_algebra(source)}"
        case Unnest(input=source, array=array):
            return f"unnest[{show_expression(array)}] {show_algebra(source)}"
        case Negate(input=source):
            return f"−{show_algebra(source)}"
        case Net(input=source):
            return f"net {show_algebra(source)}"
        case Distinct(input=source):
            return f"δ {show_algebra(source)}"
        case Aggregate(input=source, keys=keys, aggregates=aggregates):
            inner = [show_expression(key) for key in keys] + [show_aggregate(call) for call in aggregates]
            return f"γ[{', '.join(inner)}] {show_algebra(source)}"
        case Window(input=source, partition=partition, calls=window_calls):
            inner = [show_expression(part) for part in partition] + [show_window_call(call) for call in window_calls]
            return f"ω[{', '.join(inner)}] {show_algebra(source)}"
        case Sort(input=source, keys=sort_keys, limit=limit):
            return f"first[{limit}; {_order(sort_keys)}] {show_algebra(source)}"
        case Fixpoint(predicate=predicate, parts=parts):
            return f"μ[{predicate}]({', '.join(map(show_algebra, parts))})"
        case _:
            return show_node(plan)
