"""Terms as typed expressions over the variables of a clause."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.algebra.coerce import adapt_text_literals, coerce, days_beside_dates, folded
from tidemark.algebra.expressions import Call, Column, Expression
from tidemark.algebra.functions import FUNCTIONS
from tidemark.datalog.syntax import Clause, Comparison, Constant, Operation, Source, Span, Term, Variable
from tidemark.errors import TidemarkError


def expression_of(term: Term, columns: Mapping[str, Column], clause: Clause, source: Source) -> Expression:
    """The expression that a term stands for. Every variable of it has a column."""
    match term:
        case Variable(name=name):
            return columns[name]
        case Constant(literal=literal):
            return literal
        case Operation(function=function, arguments=arguments, span=span):
            given = tuple(expression_of(argument, columns, clause, source) for argument in arguments)
            return call(function, given, clause, source, span)
    raise TypeError(f"not a value: {term!r}")


def comparison_of(comparison: Comparison, columns: Mapping[str, Column], clause: Clause, source: Source) -> Expression:
    sides = tuple(expression_of(side, columns, clause, source) for side in (comparison.left, comparison.right))
    return call(comparison.function, sides, clause, source, comparison.span)


def call(name: str, arguments: tuple[Expression, ...], clause: Clause, source: Source, span: Span) -> Expression:
    """A call of the function table, with its arguments brought to the types of the signature."""
    function = FUNCTIONS[name]
    try:
        arguments = days_beside_dates(adapt_text_literals(arguments))
    except TidemarkError as error:
        raise source.error(error.code, f"{error.message}, in {clause}", span, hint=error.hint) from error
    signature = function.resolve(tuple(argument.type for argument in arguments))
    if signature is None:
        given = ", ".join(str(argument.type) for argument in arguments)
        message = f"{function.infix or name} does not take ({given}), in {clause}"
        raise source.error("type", message, span, hint=f"usage: {function.usage}")
    coerced = tuple(coerce(a, wanted) for a, wanted in zip(arguments, signature.arguments, strict=True))
    nullable = function.nullable(tuple(argument.nullable for argument in coerced))
    return folded(Call(name, coerced, signature.result, nullable))
