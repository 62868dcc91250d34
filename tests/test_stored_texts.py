"""The texts that are stored beside the data are read by later versions: they are pinned here, to the letter."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tidemark as tm
from tidemark.engines.reference import ReferenceEngine
from tidemark.session.options import AllowedPaths
from tidemark.sources.positions import Followed
from tidemark.sources.positions import Standing as SourceStanding
from tidemark.sources.protocol import Position
from tidemark.state.tidemarks import (
    Standing,
    Subscribed,
    note_name,
    numbered,
    position_note,
    result_note,
    source_note,
)
from tidemark.storage.commit import Commit
from tidemark.storage.retention import Cut, LogLimits, Retained
from tidemark.strategy.wave import Step, trace_of

NOON = dt.datetime(2026, 1, 31, 12, 0, 0, 250)


def test_a_trace() -> None:
    steps = [Step("v", "differential", "why", 1, 2, 3, 0.5, 4, 5), Step("w", "untouched", "", 0, 0, 0, 0.0)]
    assert trace_of(steps) == (
        '[{"node": "v", "strategy": "differential", "reason": "why", "rows_in": 1, "rows_out": 2, "rows_read": 3, '
        '"milliseconds": 0.5, "rows_filtered": 4, "rows_rederived": 5}, '
        '{"node": "w", "strategy": "untouched", "reason": "", "rows_in": 0, "rows_out": 0, "rows_read": 0, '
        '"milliseconds": 0.0, "rows_filtered": 0, "rows_rederived": 0}]'
    )


STANDINGS = {
    '{"tidemark": 7, "executed": "2026-01-31T12:00:00.000250", "results": 0, "status": "active", "invalid": false, '
    '"error": null}': Standing(7, NOON),
    '{"tidemark": 9, "executed": "2026-01-31T12:00:00.000250", "results": 3, "status": "stopped", "invalid": true, '
    '"error": "no"}': Standing(9, NOON, 3, "stopped", True, "no"),
}
SUBSCRIBERS = {'["v", 4, "keep"]': Subscribed("v", 4), '["v", 4, "refresh"]': Subscribed("v", 4, "refresh")}
LIMITS = {
    '{"versions": null, "age": null, "size": null}': LogLimits(),
    '{"versions": 10, "age": "2 days", "size": 64000}': LogLimits(10, "2 days", 64000),
}
RETAINED = {
    '{"full": 0, "others": {}}': Retained(),
    '{"full": 8, "others": {"t": [5, [2, 3]]}}': Retained(8, {"t": Cut(5, (2, 3))}),
}


@pytest.mark.parametrize("text", STANDINGS)
def test_how_far_something_that_lags_has_come(text: str) -> None:
    assert STANDINGS[text].to_note() == text
    assert Standing.of_note(text) == STANDINGS[text]


@pytest.mark.parametrize("text", SUBSCRIBERS)
def test_a_subscriber(text: str) -> None:
    assert SUBSCRIBERS[text].to_note() == text
    assert Subscribed.of_note(text) == SUBSCRIBERS[text]


@pytest.mark.parametrize("text", LIMITS)
def test_the_limits_of_the_log(text: str) -> None:
    assert LIMITS[text].to_note() == text
    assert LogLimits.of_note(text) == LIMITS[text]


@pytest.mark.parametrize("text", RETAINED)
def test_what_the_log_retains(text: str) -> None:
    assert RETAINED[text].to_note() == text
    assert Retained.of_note(text) == RETAINED[text]


FOLLOWED = {
    '{"at": 7, "identity": "one", "mark": "ab", "shape": "cd", "born": 3}': Followed(Position(7, "one", "ab", "cd"), 3),
}
SOURCES = {
    '{"status": "active", "error": null, "pulled": null, "version": null, "compared": null, "resync": false}': (
        SourceStanding()
    ),
    '{"status": "stopped", "error": "no", "pulled": "2026-01-31T12:00:00", "version": 4, "compared": "t: why", '
    '"resync": true}': SourceStanding("stopped", "no", "2026-01-31T12:00:00", 4, "t: why", resync=True),
}


@pytest.mark.parametrize("text", FOLLOWED)
def test_how_far_a_table_has_followed_its_source(text: str) -> None:
    assert FOLLOWED[text].to_note() == text
    assert Followed.of_note(text) == FOLLOWED[text]


@pytest.mark.parametrize("text", SOURCES)
def test_how_a_source_stands(text: str) -> None:
    assert SOURCES[text].to_note() == text
    assert SourceStanding.of_note(text) == SOURCES[text]


def test_what_an_older_version_did_not_say_has_its_default() -> None:
    assert Standing.of_note('{"tidemark": 7, "executed": "2026-01-31T12:00:00.000250"}') == Standing(7, NOON)
    assert Subscribed.of_note('["v", 4]') == Subscribed("v", 4)
    assert LogLimits.of_note('{"versions": 3}') == LogLimits(3)


def test_the_names_of_notes() -> None:
    assert note_name("q") == "lag q"
    assert result_note("q", 3) == "result 3 of q"
    assert (position_note("t"), source_note("s")) == ("position t", "source s")
    assert numbered("result 3 of q") == ("q", 3)


class Watched(ReferenceEngine):
    """The reference engine, which remembers what it was told to store."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Commit] = []

    def commit(self, commit: Commit) -> None:
        self.commits.append(commit)
        super().commit(commit)


@pytest.fixture
def engine() -> Watched:
    return Watched()


@pytest.fixture
def db(engine: Watched) -> Iterator[tm.Database]:
    with tm.Database(engine) as database:
        yield database


RECORDS = [
    '{"create": "table", "name": "t", "sql": "CREATE TABLE t (a INT)", "dialect": "postgres", "version": 1}',
    (
        '{"create": "view", "name": "v", "sql": "CREATE MATERIALIZED VIEW v AS SELECT * FROM t", '
        '"dialect": "postgres", "version": 2, "seen": {"t": 1}, "known": {"as": 1, "columns": [{"name": "a", '
        '"kind": "INT", "precision": 0, "scale": 0, "nullable": true}], "materialized": true, "options": {}, '
        r'"depends_on": ["t"], "approximate": [], "outline": "{\"own\":[[[\"\",[\"t\"]]],false],\"states\":{},'
        r'\"filters\":{\"v\":{}}}"}}'
    ),
    '{"alter": "t", "sql": "ALTER TABLE t ADD COLUMN b INT", "dialect": "postgres"}',
    (
        '{"create": "table", "name": "_firings", "sql": "CREATE TABLE _firings (rule VARCHAR NOT NULL, '
        "version BIGINT NOT NULL, instances BIGINT NOT NULL, outcome VARCHAR NOT NULL, "
        'time TIMESTAMP NOT NULL)", "dialect": "postgres", "version": 4}'
    ),
    (
        '{"create": "table", "name": "_detached", "sql": "CREATE TABLE _detached (id VARCHAR NOT NULL, '
        "rule VARCHAR NOT NULL, stage VARCHAR NOT NULL, payload VARCHAR NOT NULL, state VARCHAR NOT NULL, "
        'error VARCHAR NOT NULL, attempts BIGINT NOT NULL, version BIGINT NOT NULL, due TIMESTAMP)", '
        '"dialect": "postgres", "version": 4}'
    ),
    (
        '{"rule": "r", "sql": "CREATE RULE r WHEN SELECT a FROM v DO DELETE FROM t WHERE a = 1", '
        '"dialect": "postgres", "seen": {"t": 2, "v": 1}, "active": []}'
    ),
    (
        '{"rule": "r", "sql": "CREATE RULE r WHEN SELECT a FROM v DO DELETE FROM t WHERE a = 1", '
        '"dialect": "postgres", "seen": {"t": 2, "v": 1}, "active": [[]]}'
    ),
    '{"rule": "r", "sql": null}',
    '{"drop": "v"}',
]


def test_the_records_of_definitions(db: tm.Database, engine: Watched) -> None:
    db.execute("CREATE TABLE t (a INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    db.execute("ALTER TABLE t ADD COLUMN b INT")
    db.execute("CREATE RULE r WHEN SELECT a FROM v DO DELETE FROM t WHERE a = 1")
    db.execute("ACTIVATE RULE r")
    db.execute("DROP RULE r")
    db.execute("DROP MATERIALIZED VIEW v")
    found = [text for commit in engine.commits for text in commit.catalog]
    assert found == RECORDS


def test_the_records_of_sources(tmp_path: Path) -> None:
    engine = Watched()
    write_deltalake(str(tmp_path / "r"), pa.table({"A": [1], "b c": ["x"]}))
    source = f"CREATE SOURCE s TYPE delta OPTIONS (path '{tmp_path}')"
    with tm.Database(engine, allowed=AllowedPaths([tmp_path])) as db:
        db.execute(source)
        db.execute("CREATE OR REPLACE TABLE t FROM SOURCE s RELATION 'r' KEY (a)")
        db.execute("CREATE TABLE IF NOT EXISTS u (a BIGINT) FROM SOURCE s RELATION 'r'")
        db.pull()
        db.execute("DROP SOURCE s CASCADE")
    records = [json.loads(text) for commit in engine.commits for text in commit.catalog]
    table = {"create": "table", "dialect": "postgres"}
    assert records == [
        {"source": "s", "sql": source, "dialect": "postgres"},
        {
            **table,
            **{"name": "t", "version": 2, "from": {"source": "s", "relation": "r", "whole": True}},
            "sql": 'CREATE TABLE "t" ("a" BIGINT, "b c" VARCHAR, PRIMARY KEY ("a"))',
        },
        {
            **table,
            **{"name": "u", "version": 3, "from": {"source": "s", "relation": "r", "whole": False}},
            "sql": "CREATE TABLE IF NOT EXISTS u (a BIGINT)",
        },
        {"drop": "t"},
        {"drop": "u"},
        {"source": "s", "sql": None},
    ]
    names = {name for commit in engine.commits for name in commit.notes}
    assert {"position t", "position u", "source s"} == {n for n in names if not n.startswith("forgotten ")}
    assert set(engine.commits[-1].notes.values()) == {None}


def test_the_trace_of_a_transaction_has_the_keys_that_are_stored(db: tm.Database, engine: Watched) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a > 1")
    db.execute("INSERT INTO t VALUES (1), (2)")
    [step] = json.loads(engine.commits[-1].trace)
    assert list(step) == list(json.loads(trace_of([Step("", "", "", 0, 0, 0, 0.0)]))[0])
    assert (step["node"], step["rows_out"]) == ("v", 1)
    assert db.trace(db.version).column_names == list(step)
