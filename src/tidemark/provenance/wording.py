"""Relations, conditions and steps in words."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.algebra.expressions import Cast, Expression, transform
from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Filter,
    Fixpoint,
    Given,
    Intersection,
    Join,
    Plan,
    Scan,
    Stored,
    Union,
    Unnest,
    Values,
    Window,
)
from tidemark.algebra.printing import show_expression
from tidemark.algebra.types import INTEGER_DIGITS, Type
from tidemark.provenance.blocks import JoinBlock, block_of, labels, qualified, signed
from tidemark.provenance.questions import Pattern
from tidemark.provenance.tree import cell


def name_of(plan: Plan) -> str:
    """What rows a plan has, in a few words."""
    match plan:
        case Scan(relation=relation) | Stored(relation=relation):
            return "the clock" if relation == CLOCK else relation
        case Given(name=name):
            return name
        case Values():
            return "VALUES"
        case Distinct(input=source):
            return name_of(source)
        case Aggregate(input=source):
            return f"groups of {name_of(source)}"
        case Fixpoint(predicate=predicate):
            return predicate
        case Window(input=source) | Unnest(input=source):
            return name_of(source)
        case Union(parts=parts):
            return " or ".join(dict.fromkeys(name_of(part) for part in parts if signed(part)[0] > 0))
        case Difference(left=left, right=right):
            return f"{name_of(left)} except {name_of(right)}"
        case Intersection(left=left, right=right):
            return f"{name_of(left)} and also {name_of(right)}"
        case Join() | Filter():
            return listed([name_of(leaf) for leaf in block_of(plan).leaves])
    leaves = [name_of(child) for child in plan.inputs()]
    return listed(list(dict.fromkeys(leaves))) if leaves else "no table"


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "no table"


def condition_text(expression: Expression) -> str:
    """The expression without parentheses around it, and without casts that only widen a number."""
    text = show_expression(transform(expression, _unwidened))
    return text[1:-1] if text.startswith("(") and text.endswith(")") and _closes_at_end(text) else text


def _unwidened(expression: Expression) -> Expression | None:
    match expression:
        case Cast(argument=argument, type=wider) if argument.type.is_exact and wider.is_exact:
            (whole, scale), (wider_whole, wider_scale) = _digits(argument.type), _digits(wider)
            return transform(argument, _unwidened) if whole <= wider_whole and scale <= wider_scale else None
    return None


def _digits(type: Type) -> tuple[int, int]:
    """How many digits stand before and after the point."""
    return (INTEGER_DIGITS[type.kind], 0) if type.is_integer else (type.precision - type.scale, type.scale)


def _closes_at_end(text: str) -> bool:
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return position == len(text) - 1
    return False


def leaf_names(block: JoinBlock) -> tuple[str, ...]:
    """A name for each leaf; the second of the same relation is numbered."""
    result: list[str] = []
    for leaf in block.leaves:
        name = name_of(leaf)
        same = [other for other in result if other.partition(" #")[0] == name]
        result.append(f"{name} #{len(same) + 1}" if same else name)
    return tuple(result)


def block_text(block: JoinBlock) -> str:
    """``joins c and o, where id = cust and amount > 10``."""
    names = leaf_names(block)
    start = "is written in the query" if not names else ("comes from " if len(names) == 1 else "joins ") + listed(names)
    conditions = [condition_text(qualified(block, names, c)) for c in block.conditions]
    return start + (f", where {' and '.join(conditions)}" if conditions else "")


def with_values(plan: Plan, pattern: Pattern, joint: str = " and ") -> str:
    """``a = 1 and b IS NULL``."""
    names = labels(plan)
    return joint.join(f"{names[i]} IS NULL" if value is None else f"{names[i]} = {cell(value)}" for i, value in pattern)
