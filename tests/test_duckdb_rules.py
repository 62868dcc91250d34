"""Which rules of DuckDB's optimizer run, and what is known to be wrong with others.

The tests that are called canaries show a defect of the DuckDB that is installed. When one of them fails, DuckDB has
mended it: the rule may be tried again (``RULES_IN_USE`` in ``engines/duckdb/settings.py``), under ``make hunt``. When
the list of rules is another one, the new rules are off until somebody has looked at them; then they belong into it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tidemark as tm
from tests.support import rows, weights_of
from tidemark.calculus.as_of import Block, resolve
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.duckdb.dialect import hearing_interrupts
from tidemark.engines.duckdb.settings import RULES_IN_USE, RULES_OF_AUDITS, configure, rules, use
from tidemark.engines.spark.in_process import InProcess
from tidemark.engines.spark.integrity import Verified
from tidemark.sql.catalog.catalog import View
from tidemark.storage.store import LocalStore

SOURCE = Path(__file__).parent.parent / "src" / "tidemark"

LOOKED_AT_TEXT = """
    aggregate_function_rewriter aggregate_reuse build_side_probe_side column_lifetime common_aggregate
    common_subexpressions common_subplan compressed_materialization cte_filter_pusher cte_inlining deliminator
    distinct_aggregate_rewrite duplicate_groups empty_result_pullup expression_rewriter extension filter_pullup
    filter_pushdown grouping_sets in_clause join_elimination join_filter_pushdown join_order late_materialization
    limit_pushdown materialized_cte outer_join_simplification partial_aggregate_pushdown partitioned_execution
    projection_placement projection_pullup redundant_order_keys regex_range remote_pushdown reorder_filter
    row_group_pruner sampling_pushdown scalar_fn_pushdown statistics_propagation top_n top_n_window_elimination
    type_pushdown unnest_rewriter unused_columns window_rewriter window_self_join
"""
LOOKED_AT = frozenset(LOOKED_AT_TEXT.split())


def off(connection: duckdb.DuckDBPyConnection) -> set[str]:
    (found,) = connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()[0]
    return set(found.split(","))


# What is set


def test_the_rules_of_this_duckdb_are_those_that_were_looked_at() -> None:
    with duckdb.connect() as connection:
        assert frozenset(rules(connection)) == LOOKED_AT
    assert RULES_OF_AUDITS < RULES_IN_USE < LOOKED_AT


def test_every_rule_is_off_that_is_not_named(tmp_path: Path) -> None:
    file = DuckDBEngine(str(tmp_path / "file.db"))
    beside = InProcess(Verified(LocalStore(tmp_path)), tmp_path / "spill")
    memory = DuckDBEngine()
    for connection in (file._connection, memory._connection, beside.connection):
        assert off(connection) == LOOKED_AT - RULES_IN_USE
    for engine in (file, memory, beside):
        engine.close()


def test_a_rule_that_this_duckdb_does_not_have_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with duckdb.connect() as connection:
        use(connection, RULES_IN_USE | {"a_rule_of_another_duckdb"})
        assert off(connection) == LOOKED_AT - RULES_IN_USE
        monkeypatch.setattr("tidemark.engines.duckdb.settings.RULES_IN_USE", frozenset({"gone", "top_n"}))
        configure(connection)
        assert off(connection) == LOOKED_AT - {"top_n"}


def test_connections_are_made_where_they_are_configured() -> None:
    made = {file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.py") if _connects(file)}
    assert made == {"engines/duckdb/engine.py", "engines/duckdb/backup.py", "engines/duckdb/settings.py"}


def _connects(file: Path) -> bool:
    calls = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    return any(ast.unparse(call.func) == "duckdb.connect" for call in calls)


def test_an_audit_runs_with_fewer_rules_and_leaves_the_others_as_they_were() -> None:
    with tm.connect("duckdb") as db:
        connection = db._store.engine._connection  # type: ignore[attr-defined]
        with db._store.engine.plainly():
            assert off(connection) == LOOKED_AT - RULES_OF_AUDITS
        assert off(connection) == LOOKED_AT - RULES_IN_USE


# Canaries


@contextmanager
def with_rules(wanted: Set[str], path: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(path) if path else ":memory:") as connection:
        use(connection, wanted)
        yield connection


def extremum_after_deletion(wanted: Set[str], path: Path) -> list[Any]:
    with with_rules(wanted, path) as connection:
        for text in (
            "CREATE TABLE t (n INT)",
            "INSERT INTO t VALUES (485)",
            "INSERT INTO t SELECT range - 659 FROM range(10)",
            "CHECKPOINT",
            "DELETE FROM t",
            "INSERT INTO t VALUES (187)",
        ):
            connection.execute(text)
        return connection.execute("SELECT n FROM t ORDER BY n LIMIT 1").fetchall()


def branches_alike(wanted: Set[str], _: Path) -> list[Any]:
    joins = (
        "FROM t x JOIN t y ON x.b = y.a JOIN s ON y.b IS NOT DISTINCT FROM s.k "
        "JOIN m ON x.b IS NOT DISTINCT FROM m.k AND NOT (m.n > 0)"
    )
    with with_rules(wanted) as connection:
        connection.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (2, 3)")
        connection.execute("CREATE TABLE s (k INT, v INT); INSERT INTO s VALUES (2, 2), (3, 3)")
        connection.execute("CREATE TABLE m (k INT, n INT); INSERT INTO m VALUES (0, 1), (2, 0), (3, 0)")
        return sorted(connection.execute(f"SELECT x.a, s.v {joins} UNION ALL SELECT y.b, 0 {joins}").fetchall())


def sum_beside_nothing(wanted: Set[str], _: Path) -> list[Any]:
    """The defect shows in the one statement that a definition is evaluated by, here without any short cut of ours."""
    with tm.connect("duckdb") as db:
        engine: Any = db._store.engine
        use(engine._connection, wanted)
        db.execute("CREATE TABLE e (k INT, p INT); CREATE TABLE f (k INT, p INT, q INT, x INT)")
        db.execute("INSERT INTO e VALUES (0, 0); INSERT INTO f VALUES (0, 17, 18, 2), (0, 30, NULL, 1), (0, 13, 39, 0)")
        db.execute(
            "CREATE VIEW v AS SELECT a.k, COUNT(*) AS n FROM e AS a"
            " LEFT JOIN (SELECT * FROM f WHERE x = k) AS b ON a.k = b.k"
            " WHERE b.x < (SELECT COUNT(*) FROM f AS z WHERE z.k = b.k AND z.q <= 18)"
            " OR a.k IN (SELECT y.k FROM f AS y WHERE y.p > 60) GROUP BY a.k"
        )
        view = db._store.catalog.relations["v"]
        assert isinstance(view, View)
        return list(weights_of(engine._statements.weighted(resolve(view.plan, Block()), {})).items())


DEFECTS: dict[str, tuple[Callable[[Set[str], Path], list[Any]], list[Any]]] = {
    "row_group_pruner": (extremum_after_deletion, [(187,)]),
    "common_subplan": (branches_alike, [(1, 3), (3, 0)]),
    "statistics_propagation": (sum_beside_nothing, [((0, 1), 1)]),
}
ALL_BUT_DEFECTS = LOOKED_AT - DEFECTS.keys()


@pytest.mark.parametrize("rule", DEFECTS)
def test_canary_the_rule_is_still_wrong(rule: str, tmp_path: Path) -> None:
    asked, expected = DEFECTS[rule]
    found = asked(ALL_BUT_DEFECTS | {rule}, tmp_path / "wrong.db")
    assert found != expected, f"{rule} of DuckDB {duckdb.__version__} answers right: try it under make hunt"


@pytest.mark.parametrize("rule", DEFECTS)
def test_with_our_rules_the_answer_is_right(rule: str, tmp_path: Path) -> None:
    asked, expected = DEFECTS[rule]
    assert asked(RULES_IN_USE, tmp_path / "ours.db") == expected
    assert asked(RULES_OF_AUDITS, tmp_path / "audits.db") == expected


# From a file of ours, as users meet it


def reopened(path: Path) -> tm.Database:
    with tm.connect(f"duckdb:{path}") as db:
        db.execute("CREATE TABLE t (n INT); INSERT INTO t VALUES (485)")
        db.insert("t", [(n - 659,) for n in range(10)])
    return tm.connect(f"duckdb:{path}")


def test_the_first_row_of_a_reopened_file_is_there_after_its_extremum_was_deleted(tmp_path: Path) -> None:
    with reopened(tmp_path / "file.db") as db:
        db.execute("DELETE FROM t; INSERT INTO t VALUES (187); CREATE TABLE u (n INT)")
        db.execute("CREATE SNAPSHOT s AS SELECT n FROM t ORDER BY n LIMIT 1 REFRESH ON DEMAND")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT n FROM t ORDER BY n LIMIT 1")
        db.execute("INSERT INTO u SELECT n FROM t ORDER BY n LIMIT 1")
        for query in ("SELECT n FROM t ORDER BY n LIMIT 1", *(f"SELECT n FROM {name}" for name in "svu")):
            assert rows(db.query(query)) == [(187,)], query
        assert db.audit("v").num_rows == db.audit("s").num_rows == 0


def test_an_update_to_null_of_many_rows_leaves_the_largest_of_the_others(tmp_path: Path) -> None:
    with tm.connect(f"duckdb:{tmp_path / 'file.db'}") as db:
        db.execute("CREATE TABLE t (n INT)")
        db.insert("t", [(n,) for n in range(250_000)])
    with tm.connect(f"duckdb:{tmp_path / 'file.db'}") as db:
        db.execute("UPDATE t SET n = NULL WHERE n > 405")
        for tail, expected in {"LIMIT 2": [404, 405], "LIMIT 1 OFFSET 1": [404]}.items():
            found = rows(db.query(f"SELECT n FROM t ORDER BY n DESC NULLS LAST {tail}"))
            assert Counter(n for (n,) in found) == Counter(expected)


@pytest.mark.parametrize("rule", ["row_group_pruner", "common_subplan"])
def test_an_audit_tells_a_fill_that_a_wrong_rule_has_made(rule: str, tmp_path: Path) -> None:
    """AUDIT must not be wrong in the way in which the fill was."""
    with reopened(tmp_path / "file.db") as db:
        use(db._store.engine._connection, ALL_BUT_DEFECTS | {rule})  # type: ignore[attr-defined]
        db.execute("CREATE TABLE x (a INT, b INT); INSERT INTO x VALUES (1, 2), (2, 3)")
        db.execute("CREATE TABLE s (k INT, v INT); INSERT INTO s VALUES (2, 2), (3, 3)")
        db.execute("CREATE TABLE m (k INT, n INT); INSERT INTO m VALUES (0, 1), (2, 0), (3, 0)")
        db.execute("DELETE FROM t; INSERT INTO t VALUES (187)")
        joins = (
            "FROM x AS x JOIN x AS y ON x.b = y.a JOIN s ON y.b IS NOT DISTINCT FROM s.k "
            "JOIN m ON x.b IS NOT DISTINCT FROM m.k AND NOT (m.n > 0)"
        )
        query, expected = {
            "row_group_pruner": ("SELECT n FROM t ORDER BY n LIMIT 1", [(187,)]),
            "common_subplan": (f"SELECT x.a, s.v {joins} UNION ALL SELECT y.b, 0 {joins}", [(1, 3), (3, 0)]),
        }[rule]
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert rows(db.query("SELECT * FROM v")) != expected, "the fill is wrong, or this test shows nothing"
        assert db.audit("v").num_rows > 0


class Interrupted:
    """An Arrow table while whose schema or rows are read Ctrl-C comes."""

    def __arrow_c_stream__(self, requested: object = None) -> object:
        raise KeyboardInterrupt

    @property
    def schema(self) -> object:
        raise KeyboardInterrupt


def test_an_interrupt_that_duckdb_swallows_while_it_reads_arrow_is_an_interrupt() -> None:
    with duckdb.connect() as connection, pytest.raises(KeyboardInterrupt), hearing_interrupts():
        connection.register("given", Interrupted())
        connection.execute("SELECT * FROM given")


def test_a_text_that_names_an_interrupt_is_none() -> None:
    with duckdb.connect() as connection, pytest.raises(duckdb.ConversionException), hearing_interrupts():
        connection.execute("SELECT CAST('reading it failed: KeyboardInterrupt' AS INT)")
