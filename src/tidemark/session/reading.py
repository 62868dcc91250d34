"""The database as users hold it who only read, while somebody else may write.

Every statement reads the last version that is committed when it begins, beside all others; a transaction stays at the
one at which it began. So nobody waits for a turn.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NoReturn

from tidemark.answers.show import Side, SideAt
from tidemark.answers.why import Asked
from tidemark.engines.engine import Engine, read_only
from tidemark.errors import TidemarkError
from tidemark.session.database import Database
from tidemark.session.forms import Call
from tidemark.session.prepared import Params
from tidemark.session.transaction import Nobody, Transaction
from tidemark.session.turns import Caller
from tidemark.sources.follow import Pulled
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.text import Source
from tidemark.state.boundary import bounded
from tidemark.state.snapshot import FollowingStore, snapshot_of, staying_at
from tidemark.state.state import Store


class _Held(Nobody):
    """The owner of a transaction that stays at its version until it ends."""

    def __init__(self, opened: list[tuple[Caller | None, Transaction]], stay: ExitStack) -> None:
        self._opened, self._stay = opened, stay

    def ended(self, transaction: Transaction) -> None:
        self._opened[:] = [pair for pair in self._opened if pair[1] is not transaction]
        self._stay.close()


@bounded
class ReadOnlyDatabase(Database):
    """A connection that only reads. Made by ``tidemark.connect(…, read_only=True)``."""

    _store: FollowingStore

    def _stored(self, engine: Engine, clock: Callable[[], dt.datetime] | None) -> Store:
        self._held: list[tuple[Caller | None, Transaction]] = []
        """The transactions that are open; those that BEGIN opened, with who did."""
        return FollowingStore(engine, clock)

    def transaction(self, idempotency_key: str | None = None) -> Transaction:
        """A transaction that reads: all of it sees one version."""
        if idempotency_key is not None:
            raise read_only("a transaction with an idempotency key")
        return self._stay(None)

    def _stay(self, caller: Caller | None) -> Transaction:
        self._must_be_outside()
        self._store.must_be_open()
        self._store.follow()
        with ExitStack() as stack:
            store = stack.enter_context(staying_at(self._store))
            owner = _Held(self._held, stay := stack.pop_all())
            try:
                opened = Transaction(store, self._dialect, owner, self._program, self._prepared, self._allowed)
                self._held.append((caller, opened))
            except BaseException:
                stay.close()
                raise
            return opened

    def _opened(self, what: str, *, is_session: bool = False, is_statement: bool = False) -> Transaction:
        if not is_session:
            raise read_only(what)
        self._must_have_none_open()
        return self._stay(Caller.now())

    @property
    def _session(self) -> Transaction | None:
        if not self._held:
            return None
        caller = Caller.now()
        return next((one for who, one in self._held if who is not None and who == caller), None)

    @property
    def _anybodys_session(self) -> Transaction | None:
        return next((one for who, one in self._held if who is not None), None)

    def _must_have_none_open(self) -> None:
        if self._session is not None:
            raise TidemarkError("transaction", "a transaction is open already", hint="commit it or roll it back first")

    def _turn(self, what: str) -> NoReturn:
        raise read_only(what)

    @contextmanager
    def _turn_if_free(self, what: str = "what is due by the clock") -> Iterator[bool]:
        yield False

    def _writing_notes(self) -> NoReturn:
        raise read_only("a subscriber with a name")

    @contextmanager
    def _reading(self) -> Iterator[Side]:
        self._store.must_be_open()
        self._store.follow()
        with snapshot_of(self._store) as store:
            yield SideAt(store, self._consumers)

    @contextmanager
    def _asking(self) -> Iterator[tuple[Asked, Store]]:
        session = self._session
        if session is not None:
            yield session, session.store
            return
        with self._reading() as side:
            yield self._reader(side.store), side.store

    def _parsed(self, sql: str, params: Params) -> Sequence[tuple[st.Statement | Call, Source]]:
        self._store.follow()  # a time in the text means a version
        return super()._parsed(sql, params)

    def pull_each(self, timeout: float | str | None = None) -> list[Pulled]:
        """Sources are brought forward by who writes."""
        raise read_only("db.pull()")

    def unsubscribe(self, name: str) -> NoReturn:
        """Subscribers with a name are noted by who writes."""
        raise read_only("db.unsubscribe()")

    def close(self) -> None:
        """End what is open, and release everything."""
        for _, one in tuple(self._held):
            if one.is_open:
                one.rollback()
        super().close()
