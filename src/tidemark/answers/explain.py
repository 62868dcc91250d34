"""EXPLAIN: how a view is kept true, in words and readable algebra."""

from __future__ import annotations

from typing import Final

from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import Aggregate, Fixpoint, Sort, Window
from tidemark.algebra.printing import show_algebra, show_node, show_plan
from tidemark.analysis.relevance.filters import Influence
from tidemark.answers.advise import ALWAYS, words
from tidemark.calculus.chain import is_linear, occurrences, partial_differentials
from tidemark.calculus.extrema import has_extrema, is_kept_first
from tidemark.calculus.group import is_merged
from tidemark.errors import TidemarkError
from tidemark.network import Network, Node, NodeKind
from tidemark.sql.catalog.catalog import Catalog, View, kind_of
from tidemark.state.facts import Boundaries
from tidemark.state.pairs import key_of
from tidemark.strategy.cache import RefreshCache
from tidemark.strategy.maintenance import maintenance_of
from tidemark.strategy.nodes import expand
from tidemark.strategy.recursion.maintain import rules_of


def explain(view: View, network: Network, catalog: Catalog, cache: RefreshCache, kept: Boundaries) -> str:
    """The plan of a view and its key, then each node that serves it, how it is kept and its partial differentials,
    which rows can matter to it, and when it can do without the relations below; and the boundaries of statements that
    are kept with the view."""
    lines = [
        f"{kind_of(view)} {view.name} ({view.schema})",
        "",
        "plan",
    ]
    lines += _indented(show_plan(view.plan))
    lines += ["", "key", f"  {_key(view, catalog, cache)}"]
    if not view.materialized and not view.external:
        return "\n".join([*lines, "", "strategy", "  expanded where it is used: nothing is stored"])
    for node in network.serving(view.name):
        relations = sorted(node.influents)
        shown = relations[:MOST_RELATIONS]
        lines += ["", *_node(node), *_filters(node, shown, cache), *_autonomous(node, shown, network, cache)]
        if len(relations) > len(shown):
            lines.append(f"  and so on, for {len(relations) - len(shown)} more relations that it reads")
    lines += _boundaries(view, catalog, cache, kept)
    lines += ["", "strategy", *_indented(_strategy(view))]
    return _labelled("\n".join(lines), network)


def _key(view: View, catalog: Catalog, cache: RefreshCache) -> str:
    """What old and new rows can be paired by."""
    try:
        columns = [view.schema[position].name for position in key_of(view, catalog, cache.known.keys)]
    except TidemarkError as error:
        return f"none: {error.message.partition(': ')[2]}"
    return ", ".join(columns) or "of no columns: there is one row at most"


def _labelled(text: str, network: Network) -> str:
    """The text with the nodes' names for people."""
    for node in network.nodes.values():
        text = text.replace(node.name, node.label)
    return text


def _node(node: Node) -> list[str]:
    kinds = {NodeKind.VIEW: "view", NodeKind.SHARED: "shared by several nodes", NodeKind.EXTERNAL: "external"}
    kind = kinds.get(node.kind) or _KEPT.get(type(node.plan), "kept rows")
    lines = [f"node {node.name} ({kind}, level {node.level})", f"  {maintenance_of(node).how}"]
    if node.shared:
        lines.append(f"  uses the shared change of {', '.join(name for _, name in node.shared)}")
    if node.strategy == "complete":
        return lines
    if node.rules is not None:
        return [*lines, *_indented(str(node.rules.demands))]
    if isinstance(node.plan, Fixpoint) and node.is_stored:
        return [*lines, *(line for stratum in rules_of(node.plan) for line in _indented(str(stratum)))]
    if isinstance(node.plan, Aggregate):
        lines.append(f"  keeps {', '.join(node.schema.names)} for each group; E stands for its input")
    elif isinstance(node.plan, Window | Sort):
        lines.append(f"  keeps the rows of {show_node(node.plan)}; E stands for its input")
    affected = "E" if isinstance(node.plan, Aggregate | Window | Sort) else node.name
    return lines + _partials(node, affected) + _law(node)


def _partials(node: Node, affected: str) -> list[str]:
    """The partial differentials of a node's linear part; of an external node there may be none."""
    if not is_linear(node.input):
        return []
    lines = [
        f"  Δ{affected}/{partial.state.value}{partial.influent} = {show_algebra(partial.plan)}"
        for partial in partial_differentials(node.input, MOST_OCCURRENCES)
    ]
    others = occurrences(node.input) - MOST_OCCURRENCES
    return lines if others <= 0 else [*lines, f"  and so on, for {others} more occurrences of what it reads"]


MOST_OCCURRENCES: Final = 24
"""Of so many occurrences of relations the differentials are shown."""


MOST_RELATIONS: Final = 24
"""Of so many relations it is shown what their changes are to a node: each takes looking at all that the node reads."""


def _filters(node: Node, relations: list[str], cache: RefreshCache) -> list[str]:
    """Which rows of a changed relation are looked at at all."""
    if node.strategy == "complete":
        return []
    found = (cache.influence(node, relation) for relation in relations if relation != CLOCK)
    return [line for effect in found for line in _filter(effect)]


def _filter(effect: Influence) -> list[str]:
    if effect.filter is not None:
        return [f"  {effect.reason}; others are filtered out first"]
    return [f"  {effect.reason}"] if effect.is_cut else []


def _autonomous(node: Node, relations: list[str], network: Network, cache: RefreshCache) -> list[str]:
    """When the node needs nothing but its own content and the change."""
    lines: list[str] = []
    for relation in relations:
        if relation in network.nodes and network.nodes[relation].kind is not NodeKind.VIEW:
            continue
        reasons = cache.autonomous_reasons(node, relation)
        lines += [f"  autonomous for changes of {relation} alone: {reason}" for reason in reasons]
    return lines


def _boundaries(view: View, catalog: Catalog, cache: RefreshCache, kept: Boundaries) -> list[str]:
    """Up to where statements that were asked about before are irrelevant."""
    definitions = {other.name: other.plan for other in catalog.relations.values() if isinstance(other, View)}
    found = kept.of(view.name, expand(view.plan, definitions), cache.known.facts)
    known = {shape: words(boundary, shape.parameters) for shape, boundary in found.shapes.items()}
    shown = (
        (shape.text(found.facts[shape.relation].columns), text) for shape, text in known.items() if text is not None
    )
    lines = [f"  {shape}: irrelevant {_if(text)}" for shape, text in shown]
    return ["", "boundaries", *lines] if lines else []


def _if(condition: str) -> str:
    return condition if condition == ALWAYS else f"if {condition}"


def _law(node: Node) -> list[str]:
    """How the change of a state follows from the change of its input."""
    if not isinstance(node.plan, Aggregate | Window | Sort):
        return []
    name, stored = node.name, f"{node.name}_old"
    if is_kept_first(node.plan):
        return [f"  Δ{name} = first({stored} ⊎ ΔE) − {stored};  if one of the first rows goes, first(E_new) − {stored}"]
    if not isinstance(node.plan, Aggregate) or not is_merged(node.plan):
        if node.reads_everything:
            return [
                f"  Δ{name} = op(E_new) − {stored}:  each change reads all of E, which has no keys to restrict it by"
            ]
        return [f"  Δ{name} = op(E_new ⋉ K) − {stored} ⋉ K,  K = the keys in ΔE: touched keys are evaluated again"]
    law = f"  Δ{name} = merge({stored} ⋉ K ⊎ γ±(ΔE)) − {stored} ⋉ K,  K = the keys in ΔE"
    if not has_extrema(node.plan):
        return [law]
    return [law, "  a group whose extremum may have gone is evaluated again: γ(E_new ⋉ that group)"]


_KEPT = {Aggregate: "counts", Window: "rows of a window", Sort: "first rows", Fixpoint: "rows of a recursion"}


def _strategy(view: View) -> str:
    if view.external:
        return "differential: its changes are derived and logged, and nothing is stored; a query evaluates it"
    match view.options.get("strategy", "auto"):
        case "complete":
            return "complete: evaluated again after each change below it, because it was declared so"
        case "incremental":
            return "differential: only the differentials of changed influents are run; never anything else"
    return "differential: only the differentials of changed influents are run"


def _indented(text: str) -> list[str]:
    return ["  " + line for line in text.splitlines()]
