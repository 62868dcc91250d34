"""SHOW RULES and SHOW ASSERTIONS."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from tidemark.database.firings import Count
from tidemark.rules.graph import Graph
from tidemark.sql.catalog import Catalog


def show_rules(catalog: Catalog, known: Mapping[str, Count]) -> pa.Table:
    """Each rule with its state, how often it fired, for how many instances, and how often its action failed."""
    rules, graph = list(catalog.rules.values()), Graph(catalog)
    states = [", ".join(a.name for a in r.active) if r.parameters else "active" for r in rules]
    columns = {
        "name": [rule.name for rule in rules],
        "state": [state if rule.active else "inactive" for rule, state in zip(rules, states, strict=True)],
        "group": [rule.group for rule in rules],
        "events": [rule.event_text for rule in rules],
        "semantics": [rule.semantics for rule in rules],
        "coupling": [rule.coupling for rule in rules],
        "action_coupling": [rule.action_coupling for rule in rules],
        "warnings": ["; ".join(graph.warnings(rule)) for rule in rules],
    }
    counts = [known.get(rule.name, Count()) for rule in rules]
    texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    numbers = {
        "priority": [rule.priority for rule in rules],
        "firings": [count.firings for count in counts],
        "instances": [count.instances for count in counts],
        "failures": [count.failures for count in counts],
    }
    return pa.table(texts | {name: pa.array(values, pa.int64()) for name, values in numbers.items()})


def show_assertions(catalog: Catalog, rows: Callable[[str], int]) -> pa.Table:
    """Each assertion, what is done about violations, and how many there are."""
    views = [view for view in catalog.views if view.options.get("assertion")]
    return pa.table(
        {
            "name": pa.array([view.name for view in views], pa.string()),
            "on_violation": pa.array([view.options["assertion"] for view in views], pa.string()),
            "violations": pa.array([rows(v.name) if v.materialized else 0 for v in views], pa.int64()),
        }
    )
