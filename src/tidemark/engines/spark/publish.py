"""The relations' own Delta tables, for other readers.

Publishing makes the active files of a relation's Delta table those of its base, when it has no tail: then these are its
whole content. It happens after the commit point and changes nothing of ours, so a crash in between costs nothing: the
next opening publishes again. The application transaction ``tidemark`` of each entry is the version that the table
holds, and its commit info says so in words.

What changed is told to readers of change data: by the files themselves, if files were only added; else by a file of the
net change. If that is not known any more (the log was cut before, or somebody else wrote to the table), the whole files
that leave and come say it.

Which relations of a lake wait to be published. What fails is told, tried again after a while, and fails no commit.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.algebra.history import CLOCK
from tidemark.engines.spark import delta_table
from tidemark.engines.spark.delta_log import LOG, Action, entry_path, stamped
from tidemark.engines.spark.delta_table import Added, Standing, standing_of
from tidemark.engines.spark.integrity import mirror
from tidemark.engines.spark.lake import Lake, explained
from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.relations import Relation, Relations
from tidemark.engines.spark.seals import LAST_CHECKPOINT, Seal, no_panic, seal_published, verify_published
from tidemark.engines.spark.session import Options
from tidemark.engines.spark.stage import expand
from tidemark.errors import TidemarkError, is_fenced
from tidemark.storage import delta as deltas
from tidemark.storage.delta import as_rows
from tidemark.storage.disk import sync
from tidemark.storage.publishing import Pace, Publication, statistics

_logger = logging.getLogger("tidemark.spark")
Changes = Callable[[Relation, int], pa.Table | None]
"""The net change of a relation since a version, or None if that is not known."""


@dataclass
class Publisher:
    """Writes the Delta tables of one lake's relations. What their logs say is read once, and then known."""

    lake: Lake
    options: Options
    must_hold: Callable[[], None]
    """Refuses to go on if another writer has taken the place of this one, as far as that is known."""
    ask: Callable[[], None]
    """The same, after a bucket was asked: for failures, which may come of that."""
    standings: dict[str, Standing] = field(default_factory=dict)
    """By folder, as far as they are known for certain."""
    told: dict[str, Standing] = field(default_factory=dict)
    """The last ones that were known, for people."""
    _checked: set[str] = field(default_factory=set)

    def standing(self, relation: Relation) -> Standing:
        """What the relation's Delta table says of itself, compared with its seals when the lake was opened."""
        known = self.standings.get(relation.directory)
        if known is not None:
            return known
        table = self.lake.root / relation.directory
        mirror(self.lake.store, table, parts=False)
        if not (table / LOG).is_dir():
            self.lake.seals.drop(table)
        elif relation.directory not in self._checked:
            verify_published(table, self.lake.seals)
        self._checked.add(relation.directory)
        with no_panic(f"{relation.directory}/{LOG}"):
            found = self.standings[relation.directory] = self.told[relation.directory] = standing_of(table)
        seal_published(table, self.lake.seals)
        return found

    def is_waiting(self, relation: Relation) -> bool:
        """Whether the relation's table is not what it should be, as far as that is known."""
        known = self.standings.get(relation.directory)
        if known is None or known.entry < 0 or known.version < relation.changed_at or not known.is_ours:
            return True
        return known.files.keys() != {file.path for file in relation.files}

    def publish(self, relation: Relation, version: int, changes: Changes) -> None:
        """Let the relation's table hold what the relation holds, as of a version; it has no tail."""
        assert not relation.tail
        known = self.standing(relation)
        try:
            found = self._published(relation, version, known, changes)
            self.standings[relation.directory] = self.told[relation.directory] = found
        except BaseException:
            self.standings.pop(relation.directory, None)  # nobody knows what is there
            raise

    def forget(self) -> None:
        """Read all again when it is asked for."""
        self.standings.clear()

    def gone(self, directory: str) -> None:
        """A folder is no more; another may take its place."""
        self.standings.pop(directory, None)
        self.told.pop(directory, None)
        self._checked.discard(directory)

    def files(self) -> set[str]:
        """The files that the tables name now, as far as that is known."""
        return {path for standing in self.standings.values() for path in standing.files}

    def _published(self, relation: Relation, version: int, known: Standing, changes: Changes) -> Standing:
        table, now = self.lake.root / relation.directory, int(time.time() * 1000)
        metadata, protocol = delta_table.described(relation, known)
        is_same = delta_table.same_metadata(metadata, known.metadata) and protocol == known.protocol
        wanted = {file.path for file in relation.files}
        new = [file for file in relation.files if file.path not in known.files]
        self.lake.store.fetch((table / file.path, file.size_bytes) for file in new)
        coming = [_added(table, file) for file in new]
        leaving = [file for path, file in known.files.items() if path not in wanted]
        if is_same and not coming and not leaving and known.entry >= 0:
            return replace(known, version=max(version, known.version), is_ours=True)
        net = self._net(relation, known, changes) if leaving else None
        # After the table was read: what another writer publishes later takes the place of what is put here.
        self.must_hold()
        is_change = net is None or net.num_rows > 0
        actions = delta_table.said_of(relation.name, version, now, "WRITE" if is_change else "OPTIMIZE")
        if not is_same:
            actions += [delta_table.protocol_action(protocol), {"metaData": metadata}]
        actions += [file.removal(now, is_change=is_change) for file in leaving]
        actions += [file.action(is_change=is_change, stats=file.stats or "") for file in coming]
        if net is not None and net.num_rows and delta_table.has_feed(relation):
            actions.append(self._fed(table, relation, net))
        self._put(table, known.entry + 1, delta_table.encoded(actions))
        files = {path: file for path, file in known.files.items() if path in wanted}
        files |= {file.path: file for file in coming}
        said = Standing(known.entry + 1, version, metadata, protocol, files, True, known.checkpoint, now)
        is_long = said.entry - known.checkpoint > self.options.checkpoint_every
        return self._checkpointed(table, said) if is_long else said

    def _net(self, relation: Relation, known: Standing, changes: Changes) -> pa.Table | None:
        """The net change since the last publication, if it is known and all that a reader sees change."""
        if not known.is_ours or known.version < relation.created_at:
            return None
        had = delta_table.columns_of(known.metadata)
        added = relation.columns[len(had) :]
        if had != list(relation.columns[: len(had)]) or any(value is not None for value in _values(relation, added)):
            return None
        return changes(relation, known.version)

    def _fed(self, table: Path, relation: Relation, net: pa.Table) -> Action:
        """Write a file of change data: each row that came or left, as often as it did."""
        parts = []
        for kind, entries in (("delete", deltas.negated(deltas.deleted(net))), ("insert", deltas.inserted(net))):
            rows = expand(entries).rename_columns(list(relation.columns)).cast(relation.file_schema)
            parts.append(rows.append_column(delta_table.CHANGE_TYPE, pa.repeat(pa.scalar(kind), rows.num_rows)))
        folder = table / delta_table.CHANGE_DATA
        folder.mkdir(exist_ok=True)
        path = folder / f"{stamped('cdc-', self.lake.epoch, uuid.uuid4().hex)}.parquet"
        pq.write_table(pa.concat_tables(parts), path, compression="zstd", store_schema=False)
        if self.options.power:
            sync(path)
            sync(folder)
        self.lake.store.upload([path])
        name = f"{delta_table.CHANGE_DATA}/{path.name}"
        return {"cdc": {"path": name, "partitionValues": {}, "size": path.stat().st_size, "dataChange": False}}

    def _put(self, table: Path, entry: int, data: bytes) -> None:
        """Write an entry at its version, if nobody else has."""
        (table / LOG).mkdir(exist_ok=True)
        path = entry_path(table, entry)
        try:
            self.lake.store.put_new(path, data, is_synced=self.options.power)
        except FileExistsError as error:
            self.ask()
            raise TidemarkError(
                "storage_failed",
                f"{table.name}/{LOG}/{path.name} is there already: somebody else writes to this table",
                hint="let only Tidemark write the tables of a lake",
            ) from error
        self._sealed(path, data)

    def _sealed(self, path: Path, data: bytes) -> None:
        try:
            self.lake.seals.put({path: Seal(len(data), zlib.crc32(data))})
        except OSError as error:
            self._warn(error, "%s could not be sealed", path.name)

    def _checkpointed(self, table: Path, standing: Standing) -> Standing:
        """With a checkpoint of the last entry, and without entries that nobody needs before it. The publication does
        not depend on it."""
        try:
            unread = (file for file in standing.files.values() if file.stats is None)
            self.lake.store.fetch((table / file.path, file.size) for file in unread)
            data, point = delta_table.checkpoint_of(table, standing), table / LOG
            path = point / f"{standing.entry:020d}.checkpoint.parquet"
            self.lake.store.put_new(path, data, is_synced=self.options.power)
            self._sealed(path, data)
            # No hint names it: two writers, one of which has lost its place, could not agree on that. Readers look
            # at the names in the folder.
            self.lake.store.remove([point / LAST_CHECKPOINT])
            self._clean(table)
        except Exception as error:
            self._warn(error, "%s could not get a checkpoint", table.name)
        return replace(standing, checkpoint=standing.entry)

    def _warn(self, error: Exception, words: str, name: str) -> None:
        if not is_fenced(explained(error, self.ask)):  # which is told once
            _logger.warning(words, name, exc_info=error)

    def _clean(self, table: Path) -> None:
        self.must_hold()
        before = time.time() - self.options.keep_feed_seconds
        gone = delta_table.outdated(self.lake.store.listed(table / LOG), before, self.options.keep_publications)
        self.lake.store.remove(gone)
        if gone:
            self.lake.seals.forget_missing(table)


def _values(relation: Relation, added: tuple[str, ...]) -> list[object]:
    """What rows that were there before have in the columns that came later."""
    return list(relation.added[len(relation.added) - len(added) :]) if added else []


def _added(table: Path, file: DataFile) -> Added:
    path = table / file.path
    return Added(file.path, file.size_bytes, int(os.stat(path).st_mtime * 1000), statistics(path))


MOST_HELD: Final = 16 * 1024 * 1024
"""So many bytes of changes are held for the next publication; what is more is read from the log."""


@dataclass
class _Held:
    """The changes of a relation since a version, in order."""

    since: int
    parts: list[pa.Table] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)


@dataclass
class Publications:
    """What waits, when it is due, and what went wrong."""

    publisher: Publisher
    pace: Pace
    logged: Changes
    """The net change of a relation since a version, from the log."""
    errors: dict[str, str] = field(default_factory=dict)
    _held: dict[str, _Held] = field(default_factory=dict)
    _held_bytes: int = 0

    def begin(self, version: int) -> None:
        """After stored relations were read (again): nothing is known of what changed."""
        self._held.clear()
        self._held_bytes = 0
        self.publisher.forget()
        self.pace.version = version

    def committed(self, changed: Mapping[str, pa.Table], others: Iterable[str]) -> None:
        """Hold what a commit changed of those whose last publication is known. ``others`` began anew, are no more, or
        have other columns."""
        self.pace.committed()
        for name in others:
            self._let_go(name)
            self.errors.pop(name, None)
        for name, change in as_rows(changed).items():
            held = self._held.get(name)
            if held is None:
                continue
            if change.is_by_reference:
                self._let_go(name)  # the log has it
                continue
            delta = change.table
            held.parts.append(delta)
            self._held_bytes += delta.nbytes
            if self._held_bytes > MOST_HELD:
                self._let_go(name)

    def waiting(self, relations: Relations) -> list[Relation]:
        """The relations whose tables do not hold what they hold."""
        return [one for one in relations.values() if is_published(one) and self.publisher.is_waiting(one)]

    def needs_log(self, relation: Relation, up_to: int) -> bool:
        """Whether the next publication would ask the log for a change up to that version."""
        known = self.publisher.standings.get(relation.directory)
        if not self.publisher.is_waiting(relation) or relation.name in self._held:
            return False
        return is_published(relation) and (known is None or known.version < up_to)

    def idle_after(self, relations: Relations) -> float | None:
        """How many seconds after the last commit something is due that nobody waits for; None if nothing is."""
        if self.publisher.lake.is_lost:
            return None
        seconds = self.pace.idle_after(has_failed=bool(self.errors))
        if seconds is None:
            return None
        waits = any(is_published(one) and self.publisher.is_waiting(one) for one in relations.values())
        return seconds if waits else None

    def publish(self, relations: Iterable[Relation], version: int) -> list[Exception]:
        """Publish relations that have no tail, each for itself, and say what failed."""
        failures = []
        for relation in relations:
            try:
                self.publisher.publish(relation, version, self._changes)
            except Exception as error:
                self.failed(relation.name, error)
                failures.append(error)
            else:
                self.errors.pop(relation.name, None)
                self._let_go(relation.name)
                if self.pace.rhythm is not None:
                    self._held[relation.name] = _Held(self.publisher.standing(relation).version)
        return failures

    def look(self, relations: Relations) -> None:
        """Read what the tables say, also those that are not published now; what is damaged is told."""
        for relation in relations.values():
            if is_published(relation) and relation.tail:
                try:
                    self.publisher.standing(relation)
                except Exception as error:
                    self.failed(relation.name, error)

    def failed(self, name: str, error: Exception) -> None:
        """A publication that failed is told, and tried again after a while. It fails no commit."""
        error = explained(error, self.publisher.ask)
        if not is_fenced(error):  # which is told once
            _logger.warning("could not publish %s", name, exc_info=error)
        self.errors[name] = error.message if isinstance(error, TidemarkError) else f"{type(error).__name__}: {error}"

    def shown(self, relations: Relations, version: int) -> list[Publication]:
        """How far each relation's table has come."""
        return [self._shown(one, version) for one in relations.values() if is_published(one)]

    def _shown(self, relation: Relation, version: int) -> Publication:
        return publication_of(
            relation, version, self.publisher.told.get(relation.directory), self.errors.get(relation.name)
        )

    def _changes(self, relation: Relation, since: int) -> pa.Table | None:
        held = self._held.get(relation.name)
        if held is None or held.since != since:
            return self.logged(relation, since)
        schema = relation.schema.weighted
        parts = (part.rename_columns(schema.names).cast(schema) for part in held.parts)
        return deltas.combine(schema.empty_table(), *parts)

    def _let_go(self, name: str) -> None:
        held = self._held.pop(name, None)
        if held is not None:
            self._held_bytes -= held.nbytes


def publication_of(relation: Relation, version: int, known: Standing | None, error: str | None = None) -> Publication:
    """How far a relation's table has come."""
    if known is None or known.entry < 0 or known.version < relation.created_at:
        return Publication(relation.name, relation.directory, None, None, version, None, error)
    behind = version - known.version if known.version < relation.changed_at else 0
    moment = None if known.time is None else dt.datetime.fromtimestamp(known.time / 1000, dt.UTC)
    time_ = None if moment is None else moment.replace(tzinfo=None)
    return Publication(relation.name, relation.directory, known.version, known.entry, behind, time_, error)


def is_published(relation: Relation) -> bool:
    """Whether others can read the relation: those who use the database can, and it is stored. The clock is nobody's."""
    return not relation.internal and relation.kept and relation.name != CLOCK
