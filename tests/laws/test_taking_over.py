"""What is taken over from the catalog before is what would be worked out anew.

Definitions come and go at random. After each of them the network, the keys and the filters that the store has, most of
which it had before, are compared with those of the catalog by itself.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tidemark.algebra.expressions import Call, Column, Expression, Literal
from tidemark.algebra.structure import Layered
from tidemark.algebra.types import BOOLEAN, INT
from tidemark.analysis.relevance.index import Finder, Finders
from tidemark.sql.catalog.catalog import Growing
from tidemark.state.facts import known_of
from tidemark.state.pairs import relation_keys
from tidemark.state.transition import network_of
from tidemark.strategy.cache import RefreshCache

QUERIES = (
    "SELECT a, b FROM r WHERE a > 3",
    "SELECT b AS a, b FROM r",
    "SELECT b, COUNT(*) AS n, SUM(a) AS s FROM r GROUP BY b",
    "SELECT b AS k, COUNT(*) AS m, SUM(a) AS t FROM r GROUP BY b",
    "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b WHERE s.c < 9",
    "SELECT x.a AS p, y.c AS q FROM r x JOIN s y ON x.b = y.b WHERE y.c < 9",
    "SELECT r.a, s.c, t.d FROM r JOIN s ON r.b = s.b JOIN t ON t.c = s.c WHERE t.d = 5",
    "SELECT s.c, MAX(r.a) AS high FROM r JOIN s ON r.b = s.b GROUP BY s.c",
    "SELECT DISTINCT b FROM r",
)
NAMES = ("u", "v", "w")
STEPS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(NAMES), st.sampled_from(QUERIES)),
    st.tuples(st.just("complete"), st.sampled_from(NAMES), st.sampled_from(QUERIES)),
    st.tuples(st.just("replace"), st.sampled_from(NAMES), st.sampled_from(QUERIES)),
    st.tuples(st.just("replace"), st.just("v"), st.sampled_from(QUERIES[:2])),
    st.tuples(st.just("drop"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("above"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("alter"), st.sampled_from(("r", "s")), st.just("")),
    st.tuples(st.just("change"), st.just(""), st.just("")),
)


def statement(step: tuple[str, str, str], number: int) -> str:
    match step:
        case ("create", name, query):
            return f"CREATE MATERIALIZED VIEW {name} AS {query}"
        case ("complete", name, query):
            return f"CREATE MATERIALIZED VIEW {name} WITH (strategy = 'complete') AS {query}"
        case ("replace", name, query):
            return f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}"
        case ("drop", name, _):
            return f"DROP MATERIALIZED VIEW IF EXISTS {name} CASCADE"
        case ("above", name, _):
            return f"CREATE MATERIALIZED VIEW over_{number} AS SELECT * FROM {name}"
        case ("alter", name, _):
            return f"ALTER TABLE {name} ADD COLUMN added_{number} INT"
    return "DELETE FROM r; DELETE FROM s"


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(STEPS, min_size=2, max_size=9))
def test_what_is_taken_over_is_what_would_be_worked_out_anew(steps: list[tuple[str, str, str]]) -> None:
    with tm.connect("reference") as db:
        db.execute("CREATE TABLE r (a INT PRIMARY KEY, b INT CHECK (b BETWEEN 0 AND 30))")
        db.execute("CREATE TABLE s (b INT, c INT NOT NULL); CREATE TABLE t (c INT PRIMARY KEY, d INT)")
        for number, step in enumerate(steps):
            try:
                db.execute(statement(step, number))
            except tm.TidemarkError:
                continue  # what is refused leaves everything as it was
            store = db._store
            anew = network_of(store.catalog)
            assert list(store.network.nodes) == list(anew.nodes)
            for name, node in anew.nodes.items():
                assert store.network.nodes[name] == node
                assert store.network.nodes[name].schema == node.schema
            assert store.refreshes.known.keys == relation_keys(store.catalog)
            fresh = RefreshCache(known=known_of(store.catalog))
            for relation, readers in anew.reading.items():
                assert sorted(store.network.reading[relation]) == sorted(readers)
                for node in anew.readers(relation):
                    mine = store.refreshes.influence(store.network.nodes[node.name], relation)
                    assert mine == fresh.influence(node, relation)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcde"), st.integers())))
def test_a_dictionary_that_grows_is_like_a_copy(steps: list[tuple[int, str, int]]) -> None:
    versions: list[tuple[Growing[int], dict[str, int]]] = [(Growing[int](), {})]
    for back, name, value in steps:
        growing, plain = versions[max(0, len(versions) - 1 - back)]
        versions.append((growing.with_entry(name, value), {**plain, name: value}))
    for growing, plain in versions:
        assert list(growing.items()) == list(plain.items())
        assert len(growing) == len(plain)
        assert all((name in growing) == (name in plain) for name in "abcde")


@given(st.lists(st.tuples(st.integers(0, 4), st.dictionaries(st.sampled_from("abcde"), st.integers(), max_size=3))))
def test_a_dictionary_of_layers_is_like_a_copy(steps: list[tuple[int, dict[str, int]]]) -> None:
    versions: list[tuple[Layered[str, int], dict[str, int]]] = [(Layered[str, int](), {})]
    for back, entries in steps:
        layered, plain = versions[max(0, len(versions) - 1 - back)]
        versions.append((layered.with_entries(entries), {**plain, **entries}))
    for layered, plain in versions:
        assert dict(layered) == plain
        assert len(layered) == len(plain)
        assert all((name in layered) == (name in plain) for name in "abcde")


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcdefgh"), st.booleans())))
def test_what_is_chosen_in_a_dictionary_that_grows_is_what_is_in_it(steps: list[tuple[int, str, bool]]) -> None:
    versions = [Growing[bool]()]
    for back, name, value in steps:
        before = versions[max(0, len(versions) - 1 - back)]
        versions.append(before.with_entry(name, value))
        assert versions[-1].chosen("true", bool) == tuple(filter(None, versions[-1].values()))
        since = versions[-1].since(before)
        assert since is None or list(before.values()) + list(since) == list(versions[-1].values())
    for version in versions:
        assert version.chosen("true", bool) == tuple(filter(None, version.values()))


CONDITIONS = st.one_of(st.none(), st.tuples(st.sampled_from(("eq", "lt", "ge")), st.integers(0, 9)))


@given(
    st.lists(st.tuples(st.dictionaries(st.sampled_from("uvwxyz"), CONDITIONS), st.sets(st.sampled_from("uvwxyz")))),
    st.lists(st.integers(0, 9), max_size=3),
)
def test_finders_that_change_find_what_one_of_their_filters_finds(
    steps: list[tuple[dict[str, tuple[str, int] | None], set[str]]], values: list[int]
) -> None:
    def condition(said: tuple[str, int] | None) -> Expression | None:
        return None if said is None else Call(said[0], (Column(0, "a", INT), Literal(said[1], INT)), BOOLEAN)

    finders, filters = Finders[str]({}), dict[str, Expression | None]()
    for come, gone in steps:
        entries = {owner: condition(said) for owner, said in come.items()}
        filters = {**{owner: kept for owner, kept in filters.items() if owner not in gone}, **entries}
        finders.change(entries, gone)
    rows = [(value,) for value in values]
    assert finders.matching(rows) == Finder(filters.items()).matching(rows)
