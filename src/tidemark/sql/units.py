"""Binding EXTRACT and date_trunc: a unit of time is part of the function's name."""

from __future__ import annotations

from sqlglot import exp

from tidemark.algebra.expressions import Expression
from tidemark.algebra.functions import FUNCTIONS
from tidemark.sql.binding import Binder
from tidemark.sql.moments import bind_extract_of_interval


def bind_extract(binder: Binder, node: exp.Expr) -> Expression:
    found = bind_extract_of_interval(binder, node)
    if found is not None:
        return found
    return _by_unit(binder, "extract", str(node.this.name), node.expression, node)


def bind_truncate(binder: Binder, node: exp.Expr) -> Expression:
    return _by_unit(binder, "date_trunc", str(node.args["unit"].name), node.this, node)


def _by_unit(binder: Binder, family: str, unit: str, operand: exp.Expr, node: exp.Expr) -> Expression:
    name = f"{family}_{unit.lower()}"
    if name not in FUNCTIONS:
        units = ", ".join(sorted(f.removeprefix(family + "_") for f in FUNCTIONS if f.startswith(family + "_")))
        raise binder.source.error(
            "unsupported",
            f"the unit {unit} is not supported by {family.upper()}",
            node,
            hint=f"units: {units}",
        )
    return binder.call(name, (binder.bind(operand),), node)
