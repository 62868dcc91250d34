"""The rules that would keep a view by hand (ERA chapter 7), from its definition.

For each relation r below the view, after each statement that changes it:

    K   = the rows (of a grouping: the groups) that the definition gives with Δr, both signs, in place of r
    v  := (v without K)  ⊎  (the definition, restricted to K)

Rows that come and go in one statement meet each other, so other occurrences of r are read together with what was
deleted from it. K may have too much, never too little, so the rules are exact for bags. It serves for joins,
selections, projections, DISTINCT and groupings over tables and materialized views, and for UNION, INTERSECT and EXCEPT
of such: how often these have a row depends on how often their parts have it, so K is that of all parts, in the columns
by which each of them tells its rows apart.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import Catalog, View
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.statements import CreateView
from tidemark.sql.parse.text import Source, fold, tokenize

_REFUSED = (exp.Subquery, exp.Window, exp.Limit, exp.Offset, exp.CTE, exp.Exists, exp.Values)


def as_rules(view: View, catalog: Catalog, keyed: Container[str], target: str | None = None) -> str:
    """A script that makes a table (of the view's name, or another), fills it, and keeps it as the view is by rules.

    It runs as it stands wherever the relations below the view are, and nothing has the table's name.
    Of a view that is not among ``keyed`` there are no updates: every change is a deletion or an insertion.
    """
    [(statement, _)] = parse_script(Source(view.text, view.dialect))
    query = statement.query if isinstance(statement, CreateView) else None
    if not isinstance(query, exp.Select | exp.SetOperation) or view.dialect != "postgres":
        raise _refused(view, "it is no query of the postgres dialect that begins with SELECT")
    parts = list(_parts(query, view))
    for part in parts:
        _must_be_plain(part, view, catalog)
    told_apart = [_shown(part, view) for part in parts]
    shown = [name for name in view.schema.names if all(name in names for names in told_apart)]
    if len(shown) < len(view.schema) and any(map(_has_star, parts)):
        raise _refused(view, "it has * beside a grouping")
    relations = list(dict.fromkeys(fold(table.this) for table in query.find_all(exp.Table)))
    table = target or view.name
    rules = [_rule(view, query, parts, relation, relation in keyed, shown, table) for relation in relations]
    activations = [f"ACTIVATE RULE {_rule_name(table, relation)};" for relation in relations]
    return "\n\n".join((_filled(view, query, table), *rules, "\n".join(activations)))


def _filled(view: View, query: exp.Expr, target: str) -> str:
    """The table, and what the view has at first."""
    columns = ", ".join(f"{_quoted(field.name)} {field.type}" for field in view.schema)
    table = _quoted(target)
    return f"CREATE TABLE {table} ({columns});\nINSERT INTO {table} SELECT * FROM {_whole(view, query)};"


def _whole(view: View, query: exp.Expr) -> str:
    names = ", ".join(map(_quoted, view.schema.names))
    return f"(\n        {query.sql('postgres')}\n    ) AS whole({names})"


def _rule_name(target: str, relation: str) -> str:
    return _quoted(f"keep_{target}_by_{relation}")


def _parts(query: exp.Expr, view: View) -> Iterator[exp.Select]:
    """The queries that set operations combine; one, if there are none."""
    if isinstance(query, exp.SetOperation):
        if any(query.args.get(clause) for clause in ("with_", "with", "order", "limit", "offset")):
            raise _refused(view, "it has a clause behind a set operation")
        for side in (query.left, query.right):
            yield from _parts(side, view)
    elif isinstance(query, exp.Select):
        yield query
    else:
        raise _refused(view, "a part of it is no plain SELECT")


def _must_be_plain(query: exp.Select, view: View, catalog: Catalog) -> None:
    found = next((node for node in query.walk() if isinstance(node, _REFUSED)), None)
    if found is not None or len(list(query.find_all(exp.Select))) > 1:
        raise _refused(view, "it has a subquery, a window or a LIMIT")
    if any(join.args.get("side") for join in query.args.get("joins") or ()):
        raise _refused(view, "it has an outer join")
    for table in query.find_all(exp.Table):
        relation = catalog.get(fold(table.this))
        if isinstance(relation, View) and not relation.materialized:
            raise _refused(view, f"it stands on the plain view {relation.name!r}, of which there are no events")


def _shown(query: exp.Select, view: View) -> list[str]:
    """The columns by which rows are told apart: those of the groups, or all."""
    group = query.args.get("group")
    names = list(view.schema.names)
    if group is None and not any(isinstance(node, exp.AggFunc) for node in query.walk()):
        return names
    keys = group.expressions if group is not None else []
    shown = []
    for key in keys:
        place = next((i for i, item in enumerate(query.expressions) if item.unalias() == key), None)
        if place is None and isinstance(key, exp.Column):
            place = next((i for i, item in enumerate(query.expressions) if _own_name(item) == fold(key.this)), None)
        if place is None:
            raise _refused(view, f"it does not show {key.sql('postgres')}, by which it groups")
        shown.append(names[place])
    return shown


def _rule(
    view: View,
    query: exp.Expr,
    parts: list[exp.Select],
    relation: str,
    is_keyed: bool,
    shown: list[str],
    target: str,
) -> str:
    touched = " UNION ALL ".join(term for part in parts for term in _touched(part, relation, view, shown))
    same = " AND ".join(f"touched.{_quoted(c)} IS NOT DISTINCT FROM {{0}}.{_quoted(c)}" for c in shown) or "TRUE"
    meets = (
        f"EXISTS (SELECT 1 FROM (\n        {touched}\n    ) AS touched({', '.join(map(_quoted, shown))}) WHERE {{0}})"
    )
    if not shown:
        meets = "TRUE"
    events = "INSERT OR DELETE OR UPDATE" if is_keyed else "INSERT OR DELETE"
    table, whole = _quoted(target), _whole(view, query)
    return (
        f"CREATE RULE {_rule_name(target, relation)} ON {events} ON {_quoted(relation)}\n"
        f"DO BEGIN\n"
        f"    DELETE FROM {table} WHERE {meets.format(same.format(table))};\n"
        f"    INSERT INTO {table} SELECT * FROM {whole}\n    WHERE {meets.format(same.format('whole'))};\n"
        f"END WITH (coupling = 'immediate');"
    )


def _touched(query: exp.Select, relation: str, view: View, shown: list[str]) -> Iterator[str]:
    """The rows or groups that a change of the relation can touch: the definition with the change at each occurrence."""
    places = [i for i, table in enumerate(query.find_all(exp.Table)) if fold(table.this) == relation]
    for place in places:
        term = query.copy()
        for number, table in enumerate(list(term.find_all(exp.Table))):
            if fold(table.this) == relation:
                first = "inserted" if number == place else table.this.sql("postgres")
                both = exp.select("*").from_(first).union(exp.select("*").from_("deleted"), distinct=False)
                table.replace(both.subquery(table.alias_or_name))
        positions = [view.schema.position(name) for name in shown]
        items = [term.expressions[i] for i in positions] if not _has_star(term) else term.expressions
        term.set("expressions", items)
        term.set("having", None)
        yield term.sql("postgres")


def _has_star(query: exp.Select) -> bool:
    return any(isinstance(item, exp.Star) or isinstance(item.this, exp.Star) for item in query.expressions)


def _own_name(item: exp.Expr) -> str | None:
    """The name that an item of SELECT has by itself."""
    name = item.args.get("alias") if isinstance(item, exp.Alias) else item.this
    return fold(name) if isinstance(name, exp.Identifier) else None


def _quoted(name: str) -> str:
    """The name as it is written; what is a word of SQL too is quoted."""
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    words = tokenize(Source(name)) if plain else ()
    return name if [word.token_type for word in words] == [TokenType.VAR] else '"' + name.replace('"', '""') + '"'


def _refused(view: View, why: str) -> TidemarkError:
    return TidemarkError(
        "unsupported",
        f"no rules are generated for {view.name!r}: {why}",
        hint="they are for joins, selections, projections, DISTINCT, groupings and set operations; "
        "EXPLAIN shows how any view is kept",
    )
