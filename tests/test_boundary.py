"""Nothing but a ``TidemarkError`` leaves the public interface, whichever call of the engine fails and however."""

from __future__ import annotations

import asyncio
import errno
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import rows
from tidemark.answers import describe as inspection
from tidemark.changes.follow import Following
from tidemark.changes.results import Registered
from tidemark.client import LocalView, ViewHolder, ViewSource
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.reference import ReferenceEngine
from tidemark.state.boundary import as_error, bounded, lent

PUBLIC = (
    tm.Database,
    tm.Transaction,
    tm.Subscription,
    tm.Results,
    Following,
    Registered,
    ViewSource,
    ViewHolder,
    LocalView,
)

RAISED: tuple[tuple[Callable[[], BaseException], str], ...] = (
    (lambda: RuntimeError("nobody has foreseen this"), "internal"),
    (lambda: KeyError("nothing"), "internal"),
    (lambda: OSError(errno.ENOSPC, "No space left on device"), "storage_failed"),
    (lambda: duckdb.IOException("IO Error: no"), "evaluation_failed"),
    (lambda: PermissionError(errno.EACCES, "Permission denied", "x"), "permission"),
    (lambda: pa.ArrowInvalid("a column is too short"), "internal"),
    (lambda: MemoryError(), "out_of_memory"),
    (lambda: RecursionError("too deep"), "too_complex"),
    (lambda: OSError(errno.EIO, "Input/output error"), "storage_failed"),
    (lambda: tm.TidemarkError("storage_failed", "no"), "storage_failed"),
)

ASKED = ("evaluate", "fetch", "iterates", "iterate", "commit", "changes", "note", "forget", "logged", "trace", "rows")


class Failing:
    """An engine of which one call fails, before it has done anything."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.calls, self.fails_at, self.counts = 0, -1, False
        self.error: Callable[[], BaseException] = RuntimeError

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        return self._counted(found) if name in ASKED else found

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls += self.counts
            if self.counts and self.calls == self.fails_at:
                raise self.error()
            return method(*arguments)

        return call


class Model:
    """What the tables hold after the statements that were acknowledged."""

    def __init__(self) -> None:
        self.version = 0
        self.stock: dict[int, int] = {}

    def total(self) -> Counter[tuple[int, int]]:
        amounts = Counter(amount for amount in self.stock.values())
        return Counter({(amount, n): 1 for amount, n in amounts.items()})


SCHEMA = """
CREATE TABLE stock (item INT PRIMARY KEY, amount INT);
CREATE MATERIALIZED VIEW total AS SELECT amount, COUNT(*) AS n FROM stock GROUP BY amount;
CREATE MATERIALIZED VIEW small AS SELECT item FROM stock WHERE amount < 3;
CREATE SNAPSHOT early AS SELECT item FROM stock REFRESH ON DEMAND;
CREATE CONTINUAL QUERY often AS SELECT amount, n FROM total TRIGGER ON CHANGE;
CREATE MATERIALIZED VIEW path (x, y) AS DATALOG $$ path(x, y) :- stock(x, y). path(x, y) :- stock(x, z), path(z, y). $$;
CREATE RULE low WHEN SELECT item FROM stock WHERE amount < 0 DO NOTIFY low;
ACTIVATE RULE low;
INSERT INTO stock VALUES (1, 2), (2, 3);
"""


Step = Callable[[int], tuple[Callable[[], object], Callable[[], object]]]
"""From a number that no other attempt has to an action, and to what it does to the model."""


def steps(db: tm.Database, model: Model) -> Iterator[Step]:
    """Every public method."""

    def put(item: int, amount: int) -> Callable[[], object]:
        return lambda: model.stock.update({item: amount})

    def all_at_once(item: int) -> None:
        with db.transaction() as tx:
            tx.insert("stock", [(item, 9)])
            tx.query("SELECT * FROM total")
            tx.execute(f"UPDATE stock SET amount = 7 WHERE item = {item}")
            tx.sync("stock", [*model.stock.items(), (item, 7)])
            tx.delete("stock", [(item, 7)])
            tx.insert("stock", [(item, 8)])
            tx.signal("nobody")

    def begun(item: int) -> None:
        db.execute(f"BEGIN; INSERT INTO stock VALUES ({item}, 7)")
        db.query("SELECT * FROM small")
        db.execute("COMMIT")

    def follow(name: str) -> None:
        with db.subscribe("stock", name=name) as named:
            named.poll()
        db.unsubscribe(name)

    subscription, results = db.subscribe("total"), db.results("often")
    yield lambda n: (lambda: db.insert("stock", [(n, n % 5)]), put(n, n % 5))
    yield lambda n: (lambda: db.execute(f"INSERT INTO stock VALUES ({n}, -1)"), put(n, -1))
    yield lambda n: (lambda: all_at_once(n), put(n, 8))
    yield lambda n: (lambda: begun(n), put(n, 7))
    yield lambda n: (lambda: db.execute(f"UPDATE stock SET amount = {n} WHERE item = 2"), put(2, n))
    yield lambda n: (lambda: db.sync("stock", [*model.stock.items(), (n, 6)]), put(n, 6))
    yield lambda n: (
        lambda: db.delete("stock", [max(model.stock.items())]),
        lambda: model.stock.pop(max(model.stock)),
    )
    for action in (
        lambda: subscription.poll(),
        lambda: results.poll(),
        lambda: db.query("SELECT s.item, t.n FROM stock s JOIN total t ON s.amount = t.amount"),
        lambda: db.query("SELECT * FROM path"),
        lambda: db.execute("SELECT * FROM stock AS OF VERSION 9"),
        lambda: db.changes("total"),
        lambda: db.changes("stock", paired=True),
        lambda: db.subscribe("total").poll(),
        lambda: db.audit("path"),
        lambda: db.explain("total"),
        lambda: db.why("total", {"n": 1}),
        lambda: db.why("stock", {"item": 1}, version=9),
        lambda: db.classify("total", "DELETE FROM stock"),
        lambda: db.advise("small", "DELETE FROM stock WHERE amount < :p"),
        lambda: db.as_rules("small"),
        lambda: db.trace(db.version),
        lambda: db.firings(),
        lambda: db.dead_letters(),
        lambda: db.refresh("early"),
        lambda: db.run_due(),
        lambda: db.signal("nobody"),
        lambda: db.tick(),
        lambda: db.execute("ALTER LOG SET (versions = 1000)"),
        lambda: db.on_result("often", lambda found: None, after=0).cancel(),
        lambda: follow("one"),
        *(
            lambda what=what: db.execute(f"SHOW {what}")
            for what in ("TABLES", "VIEWS", "RULES", "LOG", "CONSUMERS", "SNAPSHOTS", "CONTINUAL QUERIES")
        ),
        lambda: inspection.relations(db),
        lambda: LocalView(ViewSource(db, "small").first()).close(),
        lambda: ViewHolder(ViewSource(db, "total").state()),
        lambda: db.execute("CREATE OR REPLACE VIEW plain AS SELECT item FROM stock"),
        lambda: db.execute("CREATE OR REPLACE MATERIALIZED VIEW small AS SELECT item FROM stock WHERE amount < 4"),
        subscription.close,
        results.close,
    ):
        yield lambda n, action=action: (action, lambda: None)  # type: ignore[misc]


def check(db: tm.Database, model: Model) -> None:
    """The database agrees with the model, in content and in its log."""
    assert Counter(rows(db.query("SELECT amount, n FROM total"))) == model.total()
    for view in ("total", "small", "path"):
        assert db.audit(view).num_rows == 0, view
    for relation in ("stock", "total"):
        summed: Counter[tuple[object, ...]] = Counter()
        for row in db.changes(relation).to_pylist():
            summed[tuple(v for k, v in row.items() if not k.startswith("_"))] += row["_weight"]
        assert +summed == Counter(rows(db.query(f"SELECT * FROM {relation}"))) and not -summed


@pytest.mark.parametrize("kind", ["reference", "duckdb", "duckdb by statements"])
def test_whichever_call_of_the_engine_fails_our_errors_leave_and_the_database_goes_on(kind: str) -> None:
    engine = Failing(ReferenceEngine() if kind == "reference" else DuckDBEngine(by_statements=kind != "duckdb"))
    db, model, told, numbers = tm.Database(engine), Model(), 0, itertools.count(100)
    db.execute(SCHEMA)
    model.stock = {1: 2, 2: 3}
    for place, step in enumerate(steps(db, model)):
        engine.calls, engine.fails_at = 0, 1
        while engine.calls + 1 >= engine.fails_at:  # until an attempt made no such call
            before, number = db.version, next(numbers)
            engine.error, code = RAISED[number % len(RAISED)]
            action, then = step(number)
            engine.calls, engine.counts = 0, True
            try:
                action()
                is_done = True
            except tm.TidemarkError as found:
                told, is_done = told + 1, False
                assert found.code == code, (place, engine.fails_at, found)
            engine.counts = False
            if db._session is not None:
                db.execute("ROLLBACK")
            stored = dict(rows(db.query("SELECT item, amount FROM stock")))
            if is_done or (stored != model.stock and db.version > before):
                then()  # it was told to have failed, but for what follows from it: the version is there
            assert stored == model.stock, (place, engine.fails_at)
            engine.fails_at += 1
        check(db, model)
    assert told > 80, "too little failed: the test proves nothing"
    db.insert("stock", [(99, 9)])
    db.close()


def test_errors_of_every_kind_are_told() -> None:
    for make, code in RAISED:
        error = make()
        assert isinstance(error, Exception)
        assert as_error(error).code == code

    class PanicException(BaseException):
        pass

    @bounded
    def panics() -> None:
        raise PanicException("Already shut down")

    with pytest.raises(tm.TidemarkError) as caught:
        panics()
    assert caught.value.code == "internal" and isinstance(caught.value.__cause__, PanicException)


def test_what_is_not_ours_passes() -> None:
    @bounded
    def interrupted() -> None:
        raise KeyboardInterrupt

    @bounded
    def swallowed() -> None:
        raise RuntimeError("Query interrupted")  # so DuckDB tells of Ctrl-C that came while it was at work

    @bounded
    def cancelled() -> None:
        raise asyncio.CancelledError

    @bounded
    def failing() -> None:
        with lent():
            raise ZeroDivisionError

    for function, kind in (
        (interrupted, KeyboardInterrupt),
        (swallowed, KeyboardInterrupt),
        (cancelled, asyncio.CancelledError),
        (failing, ZeroDivisionError),
    ):
        with pytest.raises(kind):
            function()
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT)")

        def stop(step: str) -> None:
            raise ZeroDivisionError

        with inspection.watching(db, stop), pytest.raises(ZeroDivisionError):
            db.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(ZeroDivisionError):
            db.insert("t", ((1 // 0,) for _ in range(3)))
        with pytest.raises(LookupError), db.transaction():
            raise LookupError
        assert db.query("SELECT * FROM t").num_rows == 0


def test_every_public_class_and_function_has_the_boundary() -> None:
    """Each public method of each public class is wrapped, and keeps its signature and its words."""
    for found in PUBLIC:
        for name, value in vars(found).items():
            function = value.fget if isinstance(value, property) else value
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            assert hasattr(function, "__wrapped__"), f"{found.__name__}.{name}"
            assert inspect.signature(function) == inspect.signature(function.__wrapped__)
            assert function.__doc__ == function.__wrapped__.__doc__
    assert hasattr(tm.connect, "__wrapped__")


@contextmanager
def small_database() -> Iterator[tm.Database]:
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        yield db


WRONG: dict[str, Callable[[tm.Database], object]] = {
    "query a number": lambda db: db.query(5),  # type: ignore[arg-type]
    "query nothing": lambda db: db.query(),  # type: ignore[call-arg]
    "query with more": lambda db: db.query("SELECT 1", 2, 3, 4),  # type: ignore[arg-type, call-arg]
    "query with another": lambda db: db.query("SELECT 1", bogus=1),  # type: ignore[call-arg]
    "execute None": lambda db: db.execute(None),  # type: ignore[arg-type]
    "execute bytes": lambda db: db.execute(b"SELECT 1"),  # type: ignore[arg-type]
    "changes of a number": lambda db: db.changes(5),  # type: ignore[arg-type]
    "insert into a number": lambda db: db.insert(5, []),  # type: ignore[arg-type]
    "insert a number": lambda db: db.insert("t", 5),
    "delete from None": lambda db: db.delete(None, []),  # type: ignore[arg-type]
    "sync a number": lambda db: db.sync(5, []),  # type: ignore[arg-type]
    "subscribe to a list": lambda db: db.subscribe(["v"]),  # type: ignore[arg-type]
    "a name that is no text": lambda db: db.subscribe("v", name=5),  # type: ignore[arg-type]
    "paired by a text": lambda db: db.changes("v", paired="yes"),  # type: ignore[arg-type]
    "a timeout that is a text": lambda db: db.subscribe("v").poll("soon"),  # type: ignore[arg-type]
    "audit a number": lambda db: db.audit(5),  # type: ignore[arg-type]
    "explain None": lambda db: db.explain(None),  # type: ignore[arg-type]
    "why of a number": lambda db: db.why(5, (1,)),  # type: ignore[arg-type]
    "classify a number": lambda db: db.classify("v", 5),  # type: ignore[arg-type]
    "advise a number": lambda db: db.advise("v", 5),  # type: ignore[arg-type]
    "refresh a number": lambda db: db.refresh(5),  # type: ignore[arg-type]
    "tick at a text": lambda db: db.tick("noon"),  # type: ignore[arg-type]
    "register a number": lambda db: db.register("f", 5),  # type: ignore[arg-type]
    "listen with a number": lambda db: db.listen("c", 5),  # type: ignore[arg-type]
    "signal a number": lambda db: db.signal(5),  # type: ignore[arg-type]
    "discard a number": lambda db: db.discard(5),  # type: ignore[arg-type]
    "unsubscribe a number": lambda db: db.unsubscribe(5),  # type: ignore[arg-type]
    "as_rules of a number": lambda db: db.as_rules(5),  # type: ignore[arg-type]
    "a backup to a number": lambda db: db.backup(5),  # type: ignore[arg-type]
    "a backup to bytes": lambda db: db.backup(b"there"),  # type: ignore[arg-type]
    "a clock that is none": lambda db: tm.connect("duckdb", clock=5),  # type: ignore[arg-type]
    "a clock that gives a number": lambda db: tm.connect("duckdb", clock=lambda: 5).execute("CREATE TABLE t (a INT)"),  # type: ignore[arg-type,return-value]
    "a source of a number": lambda db: ViewSource(db, 5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_arguments_of_a_wrong_type_are_told(name: str) -> None:
    with small_database() as db, pytest.raises(tm.TidemarkError) as caught:
        WRONG[name](db)
    assert caught.value.code == "type", caught.value


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"], ids=ascii)
def test_a_text_that_cannot_be_a_path_is_told(path: str, tmp_path: Path) -> None:
    with tm.connect("duckdb", allow_paths=[tmp_path]) as db:
        with pytest.raises(tm.TidemarkError) as caught:
            db.backup(tmp_path / path)
        assert caught.value.code == "backup", caught.value
        with pytest.raises(tm.TidemarkError) as caught:
            db.execute(f"BACKUP TO '{tmp_path}/a\0b'")
        assert caught.value.code == "backup", caught.value
    with pytest.raises(tm.TidemarkError) as caught:
        tm.connect("duckdb", allow_paths=[path])
    assert caught.value.code == "option", caught.value


@pytest.mark.parametrize("paths", [5, [5], [None], b"there", ""])
def test_allowed_paths_that_are_none_are_told(paths: Any) -> None:
    with pytest.raises(tm.TidemarkError) as caught:
        tm.connect("duckdb", allow_paths=paths)
    assert caught.value.code == "option", caught.value


def test_a_span_of_time_beyond_all_numbers_is_told() -> None:
    with pytest.raises(tm.TidemarkError, match="no span of time") as caught:
        tm.connect("duckdb", options={"statement_timeout": 10**400})
    assert caught.value.code == "option", caught.value


@pytest.mark.parametrize("target", ["duckdb:", "duckdb: ", "spark:", "reference:"])
def test_a_target_whose_path_was_left_empty_is_no_database_in_memory(target: str) -> None:
    with pytest.raises(tm.TidemarkError, match="names no path") as caught:
        tm.connect(target)
    assert caught.value.code == "target", caught.value


@pytest.mark.parametrize("number", ["x", None, 1.0, -2, -(10**30)])
def test_what_is_no_number_of_a_result_is_told(number: Any) -> None:
    with small_database() as db:
        db.execute("CREATE CONTINUAL QUERY q AS SELECT a FROM t TRIGGER ON CHANGE OF 1 ROWS")
        with pytest.raises(tm.TidemarkError, match="there is no result") as caught:
            db.results("q", number)
        assert caught.value.code == "version", caught.value
        if number is not None:
            with pytest.raises(tm.TidemarkError, match="there is no result"):
                db.on_result("q", print, number)


@pytest.mark.parametrize("kind", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_versions_of_any_size_are_told_alike(kind: str, request: pytest.FixtureRequest) -> None:
    target = request.getfixturevalue("spark") if kind == "spark" else kind
    with tm.connect(target) as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        for since, count in ((True, 1), (2, 0), (2**63, 0), (10**30, 0)):
            assert db.changes("t", since).num_rows == db.changes("t", since, paired=True).num_rows == count
        assert db.trace(True).num_rows == 0
        for version in (0, 3, 2**63, 10**30):
            with pytest.raises(tm.TidemarkError, match="there is no version"):
                db.trace(version)


def test_a_message_that_is_no_bytes_is_told_as_every_broken_message_is() -> None:
    with pytest.raises(tm.TidemarkError, match="a message is bytes, not str") as caught:
        LocalView("bytes")  # type: ignore[arg-type]
    assert caught.value.code == "message"


def test_a_wrong_argument_inside_a_transaction_dooms_nothing_that_was_not_begun(tmp_path: Path) -> None:
    with small_database() as db, db.transaction() as tx:
        tx.insert("t", [(1, "a")])
        with pytest.raises(tm.TidemarkError, match="table is a text"):
            tx.insert(5, [])  # type: ignore[arg-type]
        tx.insert("t", [(2, "b")])
