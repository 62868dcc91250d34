"""Programs that the tests share, and random relations for them: small, so that rows meet and cycles close."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tidemark.algebra.types import BIGINT, INT, Field, Schema, decimal
from tidemark.datalog.program import Program, bind_program

RELATIONS = {
    "edge": Schema((Field("a", INT), Field("b", INT))),
    "link": Schema((Field("a", INT, nullable=False), Field("b", BIGINT, nullable=False))),
    "node": Schema((Field("n", INT, nullable=False),)),
    "price": Schema((Field("n", decimal(6, 2)), Field("k", INT))),
}

CLOSURE = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y). "

TEXTS = {
    "closure": CLOSURE,
    "closure from the left": "p(x, y) :- link(x, y). p(x, y) :- p(x, z), link(z, y).",
    "closure by halves": "p(x, y) :- edge(x, y). p(x, y) :- p(x, z), p(z, y).",
    "same generation": (
        "same(x, x) :- node(x). same(x, y) :- edge(x, u), same(u, v), edge(y, v). cousins(x, y) :- same(x, y), x <> y."
    ),
    "mutual recursion": (
        "even(x) :- node(x), x = 0. even(y) :- odd(x), link(x, y). odd(y) :- even(x), link(x, y). "
        "both(x) :- even(x), odd(x)."
    ),
    "win, one move deep": (
        CLOSURE + "lost(x) :- node(x), not edge(x, _). win(x) :- edge(x, y), lost(y). "
        "unclear(x) :- node(x), not win(x), not lost(x)."
    ),
    "negation above recursion": CLOSURE + "apart(x, y) :- node(x), node(y), not closure(x, y).",
    "recursion above negation": (
        CLOSURE
        + "safe(x, y) :- link(x, y), not closure(y, x). safe(x, y) :- safe(x, z), link(z, y), not closure(z, z)."
    ),
    "negation of negation": (
        "covered(x) :- edge(x, _). bare(x) :- node(x), not covered(x). "
        "reach(x) :- bare(x). reach(y) :- reach(x), link(x, y), not bare(y)."
    ),
    "negation with a wildcard and a constant": "p(x) :- node(x), not edge(x, _), not edge(0, x).",
    "three negations": "p(x, y) :- node(x), node(y), not edge(x, y), not link(y, x), not price(x, y), not q(y). q(1).",
    "negation of what may be NULL": (
        "root(x) :- edge(x, _), not edge(_, x). odd(x, y) :- edge(x, y), not edge(y, x). "
        "open(x) :- edge(x, _), not root(x)."
    ),
    "three negations deep": (
        "a(x) :- link(x, _). b(x) :- node(x), not a(x). c(x) :- node(x), not b(x). d(x) :- node(x), not c(x). "
        "e(x, y) :- edge(x, y), d(x). f(x, y) :- edge(x, y), not d(x)."
    ),
    "three atoms": "p(x, w) :- edge(x, y), edge(y, z), edge(z, w), x <> w.",
    "recursion twice": "p(x, y) :- edge(x, y). p(x, w) :- p(x, y), edge(y, z), p(z, w).",
    "itself twice": "p(x) :- edge(x, x). q(x, y) :- edge(x, y), edge(y, x). r(x) :- q(x, x), p(x).",
    "bounded arithmetic": "n(x, 0) :- node(x). n(y, d + 1) :- n(x, d), edge(x, y), d < 3. far(x) :- n(x, 2 + 1).",
    "arithmetic in an atom": "p(x) :- node(x), edge(x, x + 1). q(x - 1) :- edge(x, _).",
    "different numbers": "p(x, k) :- price(x, k), node(x). q(x) :- node(x), not price(x, _).",
    "facts": "start(0). start(2). reach(x) :- start(x). reach(y) :- reach(x), edge(x, y).",
    "counts of a closure": CLOSURE + "size(x, count(*), sum(y), min(y), max(y)) :- closure(x, y).",
    "a count of all": "many(count(x)) :- edge(x, _), node(y). few(y) :- many(y), y < 3.",
    "recursion above a sum": (
        "degree(x, count(*)) :- edge(x, _). busy(x) :- degree(x, n), n >= 2. "
        "near(x) :- busy(x). near(y) :- near(x), edge(x, y), not busy(y)."
    ),
    "an aggregate and a plain clause": "p(x, max(y)) :- edge(x, y). p(x, 1) :- node(x). q(y) :- p(_, y), not node(y).",
    "an equality that binds": "p(x, z) :- edge(x, y), z = y, node(z). q(z) :- z = 1. q(z) :- q(y), z = y + 1, z < 4.",
    "a product": "p(x, y) :- node(x), link(y, _). q(x) :- p(x, 1).",
}

PROGRAMS: dict[str, Program] = {name: bind_program(text, RELATIONS) for name, text in TEXTS.items()}

values = st.one_of(st.none(), st.integers(0, 4))


def rows_of(schema: Schema) -> st.SearchStrategy[tuple[Any, ...]]:
    cells = []
    for field in schema.fields:
        numbers = st.integers(0, 4)
        cell: st.SearchStrategy[Any] = st.decimals(0, 4, places=2) if field.type == decimal(6, 2) else numbers
        if field.type == decimal(6, 2):
            cell = st.sampled_from(["0.00", "1.00", "1.50", "2.00"]).map(_decimal)
        cells.append(st.one_of(st.none(), cell) if field.nullable else cell)
    return st.tuples(*cells)


def _decimal(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)


contents = st.fixed_dictionaries({name: st.sets(rows_of(schema), max_size=8) for name, schema in RELATIONS.items()})


@st.composite
def changes(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Relations, and net changes of them: what is inserted is not there, what is deleted is."""
    old = draw(contents)
    plus: dict[str, Any] = {}
    minus: dict[str, Any] = {}
    for name, schema in RELATIONS.items():
        plus[name] = draw(st.sets(rows_of(schema), max_size=3)) - old[name]
        minus[name] = (
            set(draw(st.lists(st.sampled_from(sorted(old[name], key=repr)), max_size=3))) if old[name] else set()
        )
    return old, plus, minus
