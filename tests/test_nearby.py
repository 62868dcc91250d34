"""Look-ups instead of scans: the DuckDB engine finds what is near a delta, by whatever way its size calls for.

Transactions of a few rows go to compiled steps over rows, larger ones to those over columns and to statements; after
each, the views must equal their definitions. Deleted rows are found by their places, and only once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import DUCKDB_ENGINES, rows
from tidemark.algebra.expressions import Call, Column, Literal
from tidemark.algebra.plans import Filter, Given, Join, Negate, Plan, Project, Stored, Touched, Union
from tidemark.algebra.types import BIGINT, BOOLEAN, INT, VARCHAR, Field, Schema
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.limits import PROCESS
from tidemark.engines.local import columns, steps
from tidemark.engines.local.columns import evaluate_many
from tidemark.engines.local.lookups import Question, near
from tidemark.engines.local.steps import evaluate_few
from tidemark.storage.delta import Rows

SCRIPT = """
    CREATE TABLE item (tenant INT, id BIGINT, kind INT, note VARCHAR, PRIMARY KEY (tenant, id));
    CREATE TABLE kind (kind INT, name VARCHAR);
    CREATE TABLE part (item BIGINT, amount DECIMAL(12,2));
    CREATE MATERIALIZED VIEW named AS
        SELECT item.id, name, amount FROM item JOIN kind ON item.kind = kind.kind JOIN part ON part.item = item.id
        WHERE amount >= 2.00 AND name <> 'k3';
    CREATE MATERIALIZED VIEW total AS
        SELECT name, COUNT(*) AS parts, SUM(amount) AS amount FROM kind JOIN item ON item.kind = kind.kind
        JOIN part ON part.item = item.id GROUP BY name;
    CREATE MATERIALIZED VIEW pair AS SELECT a.id AS one, b.id AS other FROM item a JOIN item b ON a.note = b.note;
"""
SIZES = (1, 5, 40, 300)
FORMS = {
    "rows": {"few_changed": 10_000},
    "columns": {"few_changed": -1},
    "look-ups": {"few_changed": -1, "many_changed": -1},
}
"""How far one form of evaluation goes, so that it is this one that is used."""


def items(numbers: range) -> list[tuple[object, ...]]:
    """NULL kinds, which join nothing, and notes that two rows share."""
    return [(1, n, None if n % 5 == 0 else n % 7, None if n % 9 == 0 else f"note {n // 2}") for n in numbers]


def parts(numbers: range) -> list[tuple[object, ...]]:
    return [(None if n % 11 == 0 else n // 2, n % 4) for n in numbers]


def filled(engine: str, make: Callable[[], DuckDBEngine] | None = None) -> tm.Database:
    db = tm.connect(engine) if make is None else tm.Database(make())
    db.execute(SCRIPT)
    db.insert("kind", [(n, f"k{n}") for n in range(6)] + [(2, "k2"), (None, "none")])
    db.insert("item", items(range(1000)))
    db.insert("part", parts(range(2000)))
    return db


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_views_equal_their_definitions_after_transactions_of_any_size(
    size: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (steps, columns):
        monkeypatch.setattr(module, "PROCESS", replace(PROCESS, **FORMS[form]))
    with filled("duckdb") as db:
        with db.transaction() as tx:
            tx.delete("item", items(range(100, 100 + size)))
            tx.insert("item", [(2, n, n % 5, f"new {n // 3}") for n in range(100, 100 + size)])
            tx.delete("part", parts(range(150, 150 + size)))
            tx.insert("part", parts(range(2000, 2000 + size)) * 2)
            tx.delete("kind", [(2, "k2")])
        for view in ("named", "total", "pair"):
            assert not db.audit(view).num_rows
            assert db.changes(view, since=db.version - 1).num_rows


@pytest.mark.parametrize("engine", DUCKDB_ENGINES)
def test_views_equal_their_definitions_however_rows_are_found(engine: str) -> None:
    with filled("duckdb", DUCKDB_ENGINES[engine]) as db:
        for size in (*SIZES, 2):
            with db.transaction() as tx:
                tx.delete("item", items(range(100, 100 + size)))
                tx.insert("item", [(2, n, n % 5, f"new {n // 3}") for n in range(100, 100 + size)])
                tx.insert("part", parts(range(2000, 2000 + size)) * 2)
                tx.execute("UPDATE kind SET name = name || 'x' WHERE kind = 2")
                tx.execute("UPDATE part SET amount = 3 WHERE item = 130")
                tx.execute("DELETE FROM item WHERE tenant = 1 AND id = 555")
            assert rows(db.query("SELECT COUNT(*) FROM item WHERE tenant = 1 AND id = 555")) == [(0,)]
            db.insert("item", [(1, 555, 3, "again")])
            for view in ("named", "total", "pair"):
                assert not db.audit(view).num_rows
            with db.transaction() as tx:
                tx.delete("item", [(2, n, n % 5, f"new {n // 3}") for n in range(100, 100 + size)])
                tx.insert("item", items(range(100, 100 + size)))


def test_arrangements_are_shown_with_their_use() -> None:
    with tm.connect("duckdb", memory="1GB") as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR)")
        db.insert("t", [(n, f"b{n}") for n in range(100)])
        for n in range(5):
            db.execute(f"UPDATE t SET b = 'x' WHERE a = {n}")
        shown = db.execute("SHOW ARRANGEMENTS")
        assert shown is not None
        [row] = shown.to_pylist()
        assert (row["relation"], row["columns"], row["carried"], row["entries"]) == ("t", "", "a, b", 100)
        assert row["hits"] >= 3
        assert 0 < row["bytes"] < 200_000
        db.insert("t", [(n, f"b{n}") for n in range(100, 16_000)])
        db.execute("UPDATE t SET b = 'x' WHERE a = 200; UPDATE t SET b = 'x' WHERE a = 201")
        shown = db.execute("SHOW ARRANGEMENTS")
        assert shown is not None
        [row] = shown.to_pylist()
        assert (row["relation"], row["columns"], row["carried"], row["entries"]) == ("t", "a", "a, b", 16_002)
        db.execute("ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
        assert shown.slice(0, 0).equals(db.execute("SHOW ARRANGEMENTS"))
        db.execute(
            "UPDATE t SET b = 'y' WHERE a = 1; UPDATE t SET b = 'z' WHERE a = 1; UPDATE t SET b = 'z' WHERE a = 2"
        )
        assert rows(db.query("SELECT * FROM t WHERE a = 1")) == [(1, "z", 7)]
        assert db.execute("SHOW ARRANGEMENTS").to_pylist()[0]["carried"] == "a, b, c"  # type: ignore[union-attr]


def test_a_small_relation_is_held_as_a_whole() -> None:
    with tm.connect("duckdb") as db:
        db.execute(
            "CREATE TABLE t (a INT PRIMARY KEY, b INT);"
            "CREATE MATERIALIZED VIEW v AS SELECT b, MIN(a) AS least FROM t GROUP BY b"
        )
        db.insert("t", [(n, n % 5 or None) for n in range(100)])
        for n in range(5):
            db.execute(f"DELETE FROM t WHERE a = {n}")
        shown = db.execute("SHOW ARRANGEMENTS").to_pylist()  # type: ignore[union-attr]
        assert ("t", "", 95) in [(row["relation"], row["columns"], row["entries"]) for row in shown]
        db._store.engine.evaluate = None  # type: ignore[assignment, method-assign]
        db.execute("DELETE FROM t WHERE a = 5")  # the group of NULL is read again, and that takes no statement
        assert rows(db.query("SELECT least FROM v WHERE b IS NULL")) == [(10,)]


def test_rows_with_constants_are_found_by_the_key_and_lists_too() -> None:
    with tm.Database(DUCKDB_ENGINES["duckdb arranged"]()) as db:
        db.execute("CREATE TABLE t (a INT, b VARCHAR, c DECIMAL(6,2), PRIMARY KEY (a, b))")
        db.insert("t", [(n, f"b{n % 3}", n) for n in range(100)])
        engine = db._store.engine
        asked: list[tuple[int, ...]] = []
        lookups = engine._lookups  # type: ignore[attr-defined]
        find = lookups._find

        def noted(question: Question) -> object:
            asked.append(question.columns)
            return find(question)

        lookups._find = noted
        db.execute("UPDATE t SET c = 1 WHERE b IN ('b1', 'b2', NULL) AND c = 4.0 AND a IN (4, 7, 7)")
        db.execute("DELETE FROM t WHERE a = 7 AND 'b1' = b")
        db.execute("DELETE FROM t WHERE c = 50.00")
        assert (0, 1) in asked
        assert (2,) in asked
        assert rows(db.query("SELECT a, c FROM t WHERE c = 1 OR a IN (7, 50)")) == [(1, 1), (4, 1)]
        shown = db.execute("SHOW ARRANGEMENTS").to_pylist()  # type: ignore[union-attr]
        assert {row["columns"] for row in shown} == {"a, b", "c"}


def test_an_arrangement_by_which_too_much_is_found_goes() -> None:
    with tm.Database(DUCKDB_ENGINES["duckdb arranged"]()) as db:
        db.execute("CREATE TABLE t (a INT, b INT)")
        db.insert("t", [(n, 1) for n in range(60_000)])
        for n in range(5):
            db.execute(f"DELETE FROM t WHERE b = 1 AND a + 0 = {n}")
        assert db.execute("SHOW ARRANGEMENTS").num_rows == 0  # type: ignore[union-attr]
        assert rows(db.query("SELECT COUNT(*) FROM t")) == [(59_995,)]


@pytest.mark.parametrize("memory", [0, "1kB"])
def test_without_memory_nothing_is_arranged(memory: int | str) -> None:
    with tm.connect("duckdb", memory=memory) as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR)")
        db.insert("t", [(n, f"b{n}") for n in range(100)])
        for n in range(5):
            db.execute(f"UPDATE t SET b = 'x' WHERE a = {n}")
        assert db.execute("SHOW ARRANGEMENTS").num_rows == 0  # type: ignore[union-attr]
        assert rows(db.query("SELECT COUNT(*) FROM t WHERE b = 'x'")) == [(5,)]


@pytest.mark.parametrize("memory", [-1, "much", 1.5, True])
def test_memory_is_an_amount(memory: object) -> None:
    with pytest.raises(tm.TidemarkError) as caught:
        tm.connect("duckdb", memory=memory)  # type: ignore[arg-type]
    assert caught.value.code == "option"


@pytest.mark.parametrize("size", SIZES)
def test_of_equal_rows_as_many_leave_as_should(size: int) -> None:
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT, b VARCHAR); CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a >= 0")
        equal = [(n, None) for n in range(size)]
        db.insert("t", equal * 3)
        db.delete("t", equal * 2)
        assert sorted(rows(db.query("SELECT * FROM t"))) == equal
        assert rows(db.query("SELECT COUNT(*) AS n FROM v")) == [(size,)]
        assert not db.audit("v").num_rows


@pytest.mark.parametrize("size", SIZES)
def test_a_row_that_somebody_else_took_away_meanwhile_is_missed(size: int) -> None:
    with filled("duckdb") as db:
        db.query("SELECT * FROM item")  # then its table has what is committed
        tx = db.transaction()
        tx.delete("item", items(range(size)))
        db._store.engine._connection.execute("DELETE FROM item WHERE id = 0")  # type: ignore[attr-defined]
        tx.commit()
        with pytest.raises(tm.TidemarkError, match="should lose") as caught:
            db.query("SELECT * FROM item")
        assert caught.value.code == "damaged"
        assert rows(db.query("SELECT id FROM item WHERE id < 300")) == [(n,) for n in range(size, 300)]
        for view in ("named", "total"):
            assert not db.audit(view).num_rows


def test_a_key_in_use_is_refused_at_every_size() -> None:
    with filled("duckdb") as db:
        for size in SIZES:
            fresh = [(1, 5000 + n, 0, "") for n in range(size - 1)]
            with pytest.raises(tm.TidemarkError, match="duplicate key") as caught:
                db.insert("item", [*fresh, (1, 7, 0, "")])
            assert caught.value.code == "primary_key"


@pytest.mark.parametrize("size", SIZES)
def test_views_that_need_different_columns_of_the_same_rows_share_what_is_found(size: int) -> None:
    """Rows that differ only in a column that no view needs still count as several."""
    with tm.connect("duckdb") as db:
        db.execute(
            "CREATE TABLE big (k INT, a INT, b VARCHAR, c DOUBLE PRECISION, d INT); CREATE TABLE small (k INT, n INT);"
            "CREATE MATERIALIZED VIEW one AS SELECT n, a FROM small JOIN big ON small.k = big.k WHERE n > 0;"
            "CREATE MATERIALIZED VIEW other AS SELECT n, b FROM small JOIN big ON small.k = big.k WHERE n < 90000;"
            "CREATE MATERIALIZED VIEW bare AS SELECT n FROM small JOIN big ON small.k = big.k WHERE n < 80000;"
        )
        db.insert("big", [(n // 2, n % 3, f"b{n // 4}", None if n % 2 else n / 8, n) for n in range(800)])
        for start in (0, 7):
            db.insert("small", [(n % 390, n + start) for n in range(size)])
            for view in ("one", "other", "bare"):
                assert not db.audit(view).num_rows
        db.delete("small", [(n % 390, n + 7) for n in range(size)])
        assert not sum(db.audit(view).num_rows for view in ("one", "other", "bare"))


def test_no_column_is_read_that_no_view_needs() -> None:
    with filled("duckdb") as db:
        engine = db._store.engine
        engine.arrangements = None  # type: ignore[misc]  # what is asked of DuckDB is looked at here
        asked: list[Question] = []
        lookups = engine._lookups  # type: ignore[attr-defined]
        engine._lookups = lambda question: asked.append(lookups._widened(question)) or lookups(question)  # type: ignore
        engine._lookups.forget = lookups.forget  # type: ignore[attr-defined]
        for number in (1, 2):
            asked.clear()
            db.insert("part", [(number * 10 + 1, 3)])
        needed = {(question.relation.relation, question.needed) for question in asked}
        assert ("item", (1, 2)) in needed, "of an item its number and kind, and neither its tenant nor its note"


# Plans

Q = Schema((Field("a", INT, True), Field("b", BIGINT, True)))
R = Schema((Field("b", BIGINT, True), Field("c", VARCHAR, True)))
DELTA, FAR = Given("d", Q), Stored("r", R)
WEIGHTED = pa.table({"a": pa.array([1, 2], pa.int32()), "b": pa.array([10, None], pa.int64()), "_weight": [1, -2]})


def test_a_question_names_the_columns_that_matter_to_the_plan() -> None:
    wide = Stored("r", Schema((*R.fields, Field("d", VARCHAR, True), Field("e", INT, True))))
    plan = Project(Join(DELTA, wide, equal(1, 2)), ("a", "e"), (Column(0, "a", INT, True), Column(5, "e", INT, True)))
    asked: list[Question] = []
    near(plan, {"d": WEIGHTED}, lambda question: asked.append(question))
    assert [question.needed for question in asked] == [(0, 3)]
    near(Join(DELTA, wide, equal(1, 2)), {"d": WEIGHTED}, lambda question: asked.append(question))
    assert asked[-1].needed is None


def equal(left: int, right: int) -> Call:
    return Call("eq", (Column(left, "", BIGINT, True), Column(right, "", BIGINT, True)), BOOLEAN, True)


class Asked:
    """Answers every question with the same rows, and remembers the questions."""

    def __init__(self, answer: dict[tuple[object, ...], int] | None) -> None:
        self._answer = answer
        self.questions: list[tuple[str, tuple[int, ...], list[tuple[int, ...]]]] = []

    def __call__(self, question: Question) -> Rows | None:
        sources = [columns for _, columns in question.sources]
        self.questions.append((question.relation.relation, question.columns, sources))
        return None if self._answer is None else Rows(question.relation.schema, bag=self._answer)  # type: ignore[arg-type]


def test_a_join_asks_for_the_deltas_values_and_needs_nothing_stored() -> None:
    asked = Asked({(10, "x"): 1})
    reached, given = near(Join(DELTA, FAR, equal(1, 2)), {"d": WEIGHTED}, asked)
    assert asked.questions == [("r", (0,), [(1,)])]
    assert reached == Join(DELTA, Given("near 1", R), equal(1, 2))
    assert given["near 1"].bag == {(10, "x"): 1}


def test_the_same_question_of_two_terms_is_asked_once() -> None:
    term = Join(DELTA, FAR, equal(1, 2))
    asked = Asked({})
    near(Union((term, Negate(term))), {"d": WEIGHTED}, asked)
    assert asked.questions == [("r", (0,), [(1,)])]


def test_what_is_too_much_stays_stored() -> None:
    plan = Join(DELTA, FAR, equal(1, 2))
    assert near(plan, {"d": WEIGHTED}, Asked(None))[0] == plan


def test_where_no_equality_leads_nothing_is_asked() -> None:
    asked = Asked({})
    below = Call("lt", (Column(1, "", BIGINT, True), Column(2, "", BIGINT, True)), BOOLEAN, True)
    plan = Join(DELTA, FAR, below)
    assert near(plan, {"d": WEIGHTED}, asked)[0] == plan
    assert not asked.questions


def test_a_restriction_that_the_question_settles_is_gone() -> None:
    touched = Project(DELTA, ("b",), (Column(1, "b", BIGINT, True),))
    whole = WEIGHTED.slice(0, 1)
    assert near(Touched(FAR, touched, (0,)), {"d": whole}, Asked({}))[0] == Given("near 0", R)


def test_null_matches_null_in_a_restriction_so_it_is_not_asked_for() -> None:
    asked = Asked({})
    touched = Project(DELTA, ("b",), (Column(1, "b", BIGINT, True),))
    plan = Touched(FAR, touched, (0,))
    assert near(plan, {"d": WEIGHTED}, asked)[0] == plan
    assert not asked.questions


def test_columns_join_as_rows_do() -> None:
    right = Given("e", R)
    given = {
        "d": WEIGHTED,
        "e": pa.table({"b": pa.array([10, 10, None], pa.int64()), "c": ["x", "y", "z"], "_weight": [3, 1, 1]}),
    }
    rows_ = {"d": Rows(Q, table=given["d"]), "e": Rows(R, table=given["e"])}
    kept = Filter(right, Call("ne", (Column(1, "c", VARCHAR, True), Literal("y", VARCHAR)), BOOLEAN, True))
    shown = (Column(3, "c", VARCHAR, True), Column(0, "a", INT, True))
    term: Plan = Project(Join(DELTA, kept, equal(1, 2)), ("c", "a"), shown)
    for plan in (term, Negate(term), Union((term, term))):
        by_columns, by_rows = evaluate_many(plan, rows_), evaluate_few(plan, rows_)
        assert by_columns is not None
        assert by_rows is not None
        assert by_columns.rows.bag == by_rows.rows.bag
        assert by_columns.rows.table.schema == plan.schema.weighted
    assert evaluate_many(term, rows_).rows.table.to_pylist() == [{"c": "x", "a": 1, "_weight": 3}]  # type: ignore[union-attr]
