"""A law of the tail: whenever the tables follow, and whatever was read before they did, content, changes and traces are
those of the reference engine, in memory, after a crash and in the closed file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.support import check_invariant, rows
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.limits import DuckDBLimits
from tidemark.engines.reference import ReferenceEngine

SETUP = """
CREATE TABLE item (id INT PRIMARY KEY, kind INT, price DOUBLE PRECISION);
CREATE TABLE note (id INT, text VARCHAR, tags INT[]);
CREATE MATERIALIZED VIEW kinds AS SELECT kind, COUNT(*) AS n, MAX(price) AS most FROM item GROUP BY kind;
CREATE MATERIALIZED VIEW noted AS SELECT i.id, i.kind, n.text FROM item i LEFT JOIN note n ON n.id = i.id;
CREATE MATERIALIZED VIEW texts AS SELECT DISTINCT text FROM note;
CREATE EXTERNAL VIEW outside AS SELECT text, COUNT(*) AS n FROM note GROUP BY text;
"""
RELATIONS = ("item", "note", "kinds", "noted", "texts")
PRICES = ("0.0", "-0.0", "1.5", "NULL", "DOUBLE PRECISION 'NaN'")
small = st.integers(0, 3)
Step = tuple[str, Any]

changes = st.one_of(
    st.builds(
        "DELETE FROM item WHERE id = {0}; INSERT INTO item VALUES ({0}, {1}, {2})".format,
        small,
        small,
        st.sampled_from(PRICES),
    ),
    st.builds("UPDATE item SET kind = {1} WHERE id = {0}".format, small, small),
    st.builds("UPDATE item SET price = {1} WHERE kind = {0}".format, small, st.sampled_from(PRICES)),
    st.builds("UPDATE item SET price = 12 / kind WHERE kind <> 0 AND id < {0}".format, small),
    st.builds("DELETE FROM item WHERE price = {0}".format, st.sampled_from(PRICES)),
    st.builds("DELETE FROM item WHERE id = {0} AND kind = {1}".format, small, small),
    st.builds("INSERT INTO note VALUES ({0}, 'n{1}', ARRAY[{1}, NULL]), ({0}, 'n{1}', NULL)".format, small, small),
    st.builds("DELETE FROM note WHERE id = {0} AND text = 'n{1}'".format, small, small),
    st.builds("UPDATE note SET id = {1} WHERE id = {0}".format, small, small),
    st.builds("DELETE FROM note WHERE id > {0}".format, small),
)
steps = st.one_of(
    changes.map(lambda text: ("change", text)),
    changes.map(lambda text: ("change", text)),
    st.lists(changes, min_size=2, max_size=4).map(lambda texts: ("transaction", texts)),
    st.sampled_from(RELATIONS).map(lambda name: ("query", name)),
    st.sampled_from(RELATIONS).map(lambda name: ("changes", name)),
    st.just(("trace", None)),
    st.just(("crash", None)),
    st.just(("define", None)),
)
limit = st.builds(
    DuckDBLimits,
    tail_commits=st.sampled_from((1, 3, 1_000)),
    tail_beside=st.sampled_from((0, 2, 32)),
    tide_bytes=st.sampled_from((0, 4_000_000)),
    inline_rows=st.sampled_from((1, 50_000)),
)


class Pair:
    """A DuckDB file and the reference, which do the same."""

    def __init__(self, folder: Path, limits: DuckDBLimits, gather_at: int) -> None:
        self._folder, self._limits, self._gather_at = folder, limits, gather_at
        self._number = 0
        self.tested, self.reference = self._open(), tm.Database(ReferenceEngine())
        for db in self.both:
            db.execute(SETUP)

    @property
    def both(self) -> tuple[tm.Database, tm.Database]:
        return self.tested, self.reference

    def _open(self) -> tm.Database:
        path = self._folder / str(self._number) / "x.duckdb"
        path.parent.mkdir(exist_ok=True)
        return tm.Database(DuckDBEngine(str(path), limits=self._limits, gather_at=self._gather_at))

    def crash(self) -> None:
        """Go on with what a process would leave that dies now."""
        left = self._folder / str(self._number + 1)
        shutil.copytree(self._folder / str(self._number), left)
        self.tested.close()
        self._number += 1
        self.tested = self._open()

    def do(self, step: Step) -> None:
        what, of = step
        if what == "crash":
            self.crash()
        elif what == "trace":
            assert rows(self.tested.trace(self.tested.version).select(["node"])) == rows(
                self.reference.trace(self.reference.version).select(["node"])
            )
        elif what in ("query", "changes"):
            first, second = (self._asked(db, what, of) for db in self.both)
            assert first == second
        else:
            codes = [self._changed(db, what, of) for db in self.both]
            assert codes[0] == codes[1], codes

    def _asked(self, db: tm.Database, what: str, name: str) -> list[Any]:
        if what == "query":
            return rows(db.query(f"SELECT * FROM {name}"))
        return rows(db.changes(name, since=max(0, db.version - 2)).drop_columns(["_time"]))

    def _changed(self, db: tm.Database, what: str, of: Any) -> str | None:
        try:
            if what == "define":
                db.execute(f"CREATE TABLE t{db.version} (a INT); INSERT INTO t{db.version} VALUES (1)")
            elif what == "change":
                db.execute(of)
            else:
                with db.transaction() as tx:
                    for text in of:
                        tx.execute(text)
        except tm.TidemarkError as error:
            return error.code
        return None

    def check(self) -> None:
        """Everything: before the tables follow and after."""
        assert self.tested.version == self.reference.version
        for name in RELATIONS:
            for what in ("changes", "query"):
                self.do((what, name))
            first, second = (rows(db.changes(name).drop_columns(["_time"])) for db in self.both)
            assert first == second
        first, second = (rows(db.changes("outside").drop_columns(["_time"])) for db in self.both)
        assert first == second
        check_invariant(self.tested)

    def close(self) -> None:
        for db in self.both:
            db.close()


@settings(max_examples=examples(60), deadline=None)
@given(limits=limit, gather_at=st.sampled_from((2, 128)), history=st.lists(steps, min_size=1, max_size=14))
def test_whenever_the_tables_follow_all_is_as_in_the_reference(
    limits: DuckDBLimits, gather_at: int, history: list[Step]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder), limits, gather_at)
        try:
            for step in history:
                pair.do(step)
            pair.crash()
            pair.check()
        finally:
            pair.close()


@settings(max_examples=examples(60), deadline=None)
@given(beside=st.sampled_from((0, 2, 32)), history=st.lists(changes, min_size=2, max_size=12))
def test_a_long_tail_in_memory_is_as_in_the_reference(beside: int, history: list[str]) -> None:
    """Nobody reads in between, but for the statements themselves."""
    with (
        tm.Database(DuckDBEngine(limits=DuckDBLimits(tail_beside=beside))) as tested,
        tm.Database(ReferenceEngine()) as reference,
    ):
        for db in (tested, reference):
            db.execute(SETUP)
            for text in history:
                db.execute(text)
        for name in RELATIONS:
            assert rows(tested.changes(name).drop_columns(["_time"])) == rows(
                reference.changes(name).drop_columns(["_time"])
            )
            assert rows(tested.query(f"SELECT * FROM {name}")) == rows(reference.query(f"SELECT * FROM {name}"))
        check_invariant(tested)
