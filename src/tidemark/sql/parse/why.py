"""EXPLAIN WHY and WHY NOT: a row, written out or by some of its columns, and the relation that it is asked of.

EXPLAIN WHY [NOT] (1, 'a', NULL) IN v [AT VERSION 7]
EXPLAIN WHY [NOT] (x = 1, y = 'a') IN v [AT VERSION 7]
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import Schema
from tidemark.errors import TidemarkError
from tidemark.sql.bind.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.bind.scope import Scope
from tidemark.sql.bind.types import assigned, constant
from tidemark.sql.parse.text import Source, fold, parse

WHY_HINT = "EXPLAIN WHY (1, 'a') IN v, or EXPLAIN WHY (x = 1) IN v, perhaps with AT VERSION n behind it"


@dataclass(frozen=True)
class ExplainWhy:
    """EXPLAIN WHY a row IN a relation, or WHY NOT; with a version, why it came or went in that."""

    row: exp.Expr
    relation: str
    negated: bool = False
    version: int | None = None


def parse_why(source: Source, tokens: list[Token], negated: bool) -> ExplainWhy:
    """What stands behind WHY, or WHY NOT."""
    if not tokens or tokens[0].token_type is not TokenType.L_PAREN:
        raise _error(source, "a row in parentheses is missing here", tokens)
    end = _closing(tokens)
    if end is None:
        raise _error(source, "the row is not closed", tokens)
    rest = tokens[end + 1 :]
    if len(rest) < 2 or rest[0].text.upper() != "IN":
        raise _error(source, "IN and the name of a view are missing here", rest or tokens[-1:])
    version = None
    if len(rest) > 2:
        words = [token.text.upper() for token in rest[2:4]]
        if words != ["AT", "VERSION"] or len(rest) != 5 or not rest[4].text.isdigit():
            raise _error(source, "nothing but AT VERSION and a number can follow", rest[2:])
        version = int(rest[4].text)
    if not (rest[1].text[:1].isalpha() or rest[1].text[:1] == "_" or rest[1].token_type is TokenType.IDENTIFIER):
        raise _error(source, "the name of a view is missing here", rest[1:])
    return ExplainWhy(parse(source, tokens[: end + 1]), fold(rest[1]), negated, version)


def _closing(tokens: list[Token]) -> int | None:
    """The place of the parenthesis that closes the first one."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0:
            return place
    return None


def _error(source: Source, message: str, tokens: list[Token]) -> TidemarkError:
    if not tokens:
        return TidemarkError("syntax", message, place=source.place(len(source.text)), hint=WHY_HINT)
    return source.error("syntax", message, tokens[0], hint=WHY_HINT)


def bind_row(row: exp.Expr, schema: Schema, relation: str, source: Source) -> dict[int, Value]:
    """The values that are wanted, by position of their columns."""
    if isinstance(row, exp.Subquery) or not isinstance(row, exp.Tuple | exp.Paren):
        raise source.error("syntax", "a row of values is expected here", row, hint=WHY_HINT)
    refuse_other_parts(row, ("this", "expressions"), source)
    cells = row.expressions if isinstance(row, exp.Tuple) else [row.this]
    named = [isinstance(cell, exp.EQ) and isinstance(cell.this, exp.Column) for cell in cells]
    if any(named) and not all(named):
        raise source.error("syntax", "either all values have a column's name or none has", row, hint=WHY_HINT)
    if any(named):
        return _named(cells, schema, relation, source)
    if len(cells) != len(schema):
        raise source.error(
            "columns",
            f"the row has {len(cells)} values, {relation!r} has {len(schema)} columns",
            row,
            hint=f"columns: {', '.join(schema.names)}; some of them by name: ({schema.names[0]} = …)",
        )
    return {position: _value(cell, schema, position, source) for position, cell in enumerate(cells)}


def _named(cells: list[exp.Expr], schema: Schema, relation: str, source: Source) -> dict[int, Value]:
    result: dict[int, Value] = {}
    for cell in cells:
        refuse_other_parts(cell.this, ("this",), source)
        name = fold(cell.this.this)
        if name not in schema.names:
            raise source.error(
                "unknown_column",
                f"{relation!r} has no column {name!r}",
                cell,
                hint=f"columns: {', '.join(schema.names)}",
            )
        position = schema.position(name)
        if position in result:
            raise source.error("syntax", f"the column {name!r} is given twice", cell)
        result[position] = _value(cell.expression, schema, position, source)
    return result


def _value(cell: exp.Expr, schema: Schema, position: int, source: Source) -> Value:
    bound = assigned(ExpressionBinder(source, Scope()).bind(cell), schema[position], source, cell)
    return constant(bound, schema[position], source, cell)
