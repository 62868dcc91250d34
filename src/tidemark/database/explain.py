"""EXPLAIN: how a view is kept true, in words and readable algebra."""

from __future__ import annotations

from tidemark.algebra.plans import Aggregate
from tidemark.algebra.printing import show_algebra, show_plan
from tidemark.calculus.partial import partial_differentials
from tidemark.database.pairing import key_of
from tidemark.errors import TidemarkError
from tidemark.network import Network, Node, NodeKind
from tidemark.network.maintenance import maintenance_of
from tidemark.sql.catalog import Catalog, View


def explain(view: View, network: Network, catalog: Catalog) -> str:
    """The plan of a view and its key, then each node that serves it, how it is kept and its partial differentials."""
    lines = [
        f"{'materialized view' if view.materialized else 'view'} {view.name} ({view.schema})",
        "",
        "plan",
    ]
    lines += _indented(show_plan(view.plan))
    lines += ["", "key", f"  {_key(view, catalog)}"]
    if not view.materialized:
        return "\n".join([*lines, "", "strategy", "  expanded where it is used: nothing is stored"])
    for node in network.serving(view.name):
        lines += ["", *_node(node)]
    lines += ["", "strategy", *_indented(_strategy(view))]
    return _labelled("\n".join(lines), network)


def _key(view: View, catalog: Catalog) -> str:
    """What old and new rows can be paired by."""
    try:
        columns = [view.schema[position].name for position in key_of(view, catalog)]
    except TidemarkError as error:
        return f"none: {error.message.partition(': ')[2]}"
    return ", ".join(columns) or "of no columns: there is one row at most"


def _labelled(text: str, network: Network) -> str:
    """The text with the nodes' names for people."""
    for node in network.nodes.values():
        text = text.replace(node.name, node.label)
    return text


def _node(node: Node) -> list[str]:
    kind = {NodeKind.VIEW: "view", NodeKind.STATE: "counts", NodeKind.SHARED: "shared by several nodes"}[node.kind]
    lines = [f"node {node.name} ({kind}, level {node.level})", f"  {maintenance_of(node).how}"]
    if node.shared:
        lines.append(f"  uses the shared change of {', '.join(name for _, name in node.shared)}")
    if node.strategy == "complete":
        return lines
    if isinstance(node.plan, Aggregate):
        lines.append(f"  keeps {', '.join(node.schema.names)} for each group; E stands for its input")
    affected = "E" if isinstance(node.plan, Aggregate) else node.name
    for partial in partial_differentials(node.input):
        lines.append(f"  Δ{affected}/{partial.state.value}{partial.influent} = {show_algebra(partial.plan)}")
    if isinstance(node.plan, Aggregate):
        lines.append(f"  Δ{node.name} = merge({node.name}_old ⋉ K ⊎ γ±(ΔE)) − {node.name}_old ⋉ K,  K = the keys in ΔE")
    return lines


def _strategy(view: View) -> str:
    match view.options.get("strategy", "auto"):
        case "complete":
            return "complete: evaluated again after each change below it, because it was declared so"
        case "incremental":
            return "differential: only the differentials of changed influents are run; never anything else"
    return "differential: only the differentials of changed influents are run"


def _indented(text: str) -> list[str]:
    return ["  " + line for line in text.splitlines()]
