"""Data files are compared with what was written before anybody reads them, each once while a lake is open.

Every record of the lake has the size and the checksum of each file that it names. Native readers are fast because they
trust what they read; so nothing reaches them that is not what a commit named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.seals import damaged
from tidemark.errors import TidemarkError
from tidemark.storage.disk import checksum_of

AT_ONCE: Final = 4
"""So many files are read side by side."""


class Verified:
    """Which files of one lake are known to be whole."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: set[tuple[str, DataFile]] = set()

    def know(self, directory: str, files: Iterable[DataFile]) -> None:
        """Files that were just written, and read for their checksum, need not be read once more."""
        self._known.update((directory, file) for file in files)

    def must_be_whole(self, directory: str, files: Iterable[DataFile]) -> None:
        """Refuse to go on if any of the files is not what was written."""
        unknown = [file for file in files if (directory, file) not in self._known]
        for problem in self._problems(directory, unknown):
            if problem is not None:
                raise problem
        self.know(directory, unknown)

    def _problems(self, directory: str, files: list[DataFile]) -> Iterator[TidemarkError | None]:
        if len(files) <= 1:
            return (problem_of(self.root, directory, file) for file in files)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return iter(list(pool.map(lambda file: problem_of(self.root, directory, file), files)))


def problem_of(root: Path, directory: str, file: DataFile) -> TidemarkError | None:
    """What is wrong with a file, if anything is: the size is always compared, the checksum if there is one."""
    name, path = f"{directory}/{file.path}", root / directory / file.path
    try:
        size, checksum = (path.stat().st_size, None) if file.checksum is None else checksum_of(path)
    except FileNotFoundError:
        return damaged(name, "it is missing")
    except OSError as error:
        return damaged(name, f"it cannot be read: {error.strerror}")
    if size != file.size_bytes:
        return damaged(name, f"it has {size} bytes instead of {file.size_bytes}")
    if checksum != file.checksum:
        return damaged(name, "its checksum is not the one it was written with")
    return None
