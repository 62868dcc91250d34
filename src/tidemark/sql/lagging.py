"""What is bound of a snapshot, a continual query or a view that is refreshed on read, beside its query."""

from __future__ import annotations

from tidemark.algebra.plans import Plan, relations_of
from tidemark.sql.catalog import Catalog, View
from tidemark.sql.continual_statements import LAG_POLICIES, ON_READ, QUERY, Lag
from tidemark.sql.statements import CreateView
from tidemark.sql.text import Source

REFRESHES = ("on read",)


def lag_of(statement: CreateView) -> Lag | None:
    """How the relation that a statement defines lags, if it does."""
    if statement.lag is None and statement.options.get("refresh") == "on read":
        return Lag(ON_READ)
    return statement.lag


def is_lag_option(key: str, value: str, statement: CreateView, source: Source) -> bool:
    """Whether an option is one of those that lag; its value must be known."""
    if key == "refresh" and statement.lag is None:
        known: tuple[str, ...] = REFRESHES
    elif key == "lag" and lag_of(statement) is not None:
        lag = lag_of(statement)
        known = ("keep", "refresh") if lag is not None and lag.kind == QUERY else LAG_POLICIES
    else:
        return False
    if value not in known:
        raise source.error("unsupported", f"{key} = {value!r} is not known", hint=f"{key}: {', '.join(known)}")
    return True


def check_below(plan: Plan, statement: CreateView, catalog: Catalog, source: Source) -> None:
    """Refuse what would stand on a view that is only true once it was read, and never learns of its changes in time."""
    if not statement.materialized:
        return
    for name in sorted(relations_of(plan)):
        below = catalog.get(name)
        if isinstance(below, View) and below.lag is not None and below.lag.is_read_through:
            raise source.error(
                "unsupported",
                f"{statement.name!r} cannot stand on {name!r}, which is refreshed on read",
                statement.query,
                hint=f"name the relations below {name}, or leave its refresh out",
            )
