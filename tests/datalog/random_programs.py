"""Random programs: predicates on top of each other, with recursion, negation, comparisons, constants and aggregates.

Negated and aggregated predicates are those before the one that is defined, so every program is stratified; variables
are taken from what the atoms bind, so every clause is safe.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.datalog.programs import RELATIONS
from tidemark.datalog.program import Program, bind_program

BASE = {name: len(schema) for name, schema in RELATIONS.items() if name != "price"}
NAMES = ("p", "q", "r")
VARIABLES = ("x", "y", "z", "w")


@st.composite
def texts(draw: st.DrawFn) -> str:
    arity = {name: draw(st.integers(1, 2)) for name in NAMES}
    clauses = []
    for place, name in enumerate(NAMES):
        below = {**BASE, **{n: arity[n] for n in NAMES[:place]}}
        grouped = draw(st.booleans()) and draw(st.booleans())
        clauses.append(draw(_clauses(name, arity[name], below, below, grouped=grouped)))
        for _ in range(draw(st.integers(0, 2))):
            with_itself = below if grouped else {n: arity[n] for n in NAMES[: place + 1]} | {"edge": 2}
            clauses.append(draw(_clauses(name, arity[name], with_itself, below)))
    return " ".join(clauses)


@st.composite
def _clauses(
    draw: st.DrawFn, head: str, width: int, positive: dict[str, int], negative: dict[str, int], *, grouped: bool = False
) -> str:
    parts = []
    bound: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(positive)))
        terms = [draw(_terms) for _ in range(positive[name])]
        bound += [term for term in terms if term in VARIABLES]
        parts.append(f"{name}({', '.join(terms)})")
    if not bound:
        parts.append("node(x)")
        bound.append("x")
    variable = st.sampled_from(sorted(set(bound)))
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(negative)))
        terms = [draw(st.one_of(variable, st.sampled_from(["_", "1"]))) for _ in range(negative[name])]
        parts.append(f"not {name}({', '.join(terms)})")
    if draw(st.integers(0, 3)) == 0:
        parts.append(
            f"{draw(variable)} {draw(st.sampled_from(['<', '<>', '=', '>=']))} {draw(st.one_of(variable, _numbers))}"
        )
    parts = draw(st.permutations(parts))
    cells = [draw(st.one_of(variable, variable, variable, _numbers)) for _ in range(width)]
    if grouped:
        function = draw(st.sampled_from(["count", "sum", "min", "max"]))
        cells[-1] = f"{function}({draw(variable)})"
    return f"{head}({', '.join(cells)}) :- {', '.join(parts)}."


_numbers = st.integers(0, 3).map(str)
_terms = st.one_of(
    st.sampled_from(VARIABLES), st.sampled_from(VARIABLES), st.sampled_from(VARIABLES), st.sampled_from(["_", "0", "2"])
)

programs: st.SearchStrategy[Program] = texts().map(lambda text: bind_program(text, RELATIONS))
