"""The options of a connection: one row for each in a table, which reads its value or refuses it.

Which files statements may reach: those that the program which connects has allowed, and no others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tidemark.errors import TidemarkError, half_character
from tidemark.session.turns import DEFAULT_SECONDS
from tidemark.storage.publishing import Rhythm
from tidemark.storage.retention import bytes_of

_SPAN: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_UNITS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}
_LONGEST: Final = 86_400.0 * 365


def seconds_of(given: object) -> float | None:
    """A span of time in seconds: a number of them, or a text with a unit. None and 0 are no limit.

    >>> seconds_of("500ms"), seconds_of("2 min"), seconds_of(1.5), seconds_of(0)
    (0.5, 120.0, 1.5, None)
    """
    if given is None:
        return None
    seconds: float | None = None
    if isinstance(given, str):
        found = _SPAN.fullmatch(given)
        if found is not None and found[2].lower() in _UNITS:
            seconds = float(found[1]) * _UNITS[found[2].lower()]
    elif isinstance(given, int | float) and not isinstance(given, bool):
        seconds = given
    if seconds is None or not 0 <= seconds <= _LONGEST:
        raise TidemarkError(
            "option", f"{given!r} is no span of time", hint="seconds, or a text such as '5s', '500ms' or '2 min'"
        )
    return float(seconds) or None


def waiting_seconds(given: object) -> float:
    """How long to wait: seconds, or a text with a unit; 0 is not at all."""
    return seconds_of(given) or 0.0


def memory_of(given: object) -> int | None:
    """An amount of memory in bytes: a number of them, or a text. None leaves it to Tidemark.

    >>> memory_of("2GB"), memory_of(0)
    (2000000000, 0)
    """
    with suppress(ValueError):
        if given is None:
            return None
        if isinstance(given, str):
            return bytes_of(given)
        if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
            return given
    raise TidemarkError("option", f"memory is {given!r}", hint="bytes, or a text such as '2GB' or '512MiB'; 0 is none")


def _durability(value: object) -> object:
    if value not in ("process", "power"):
        raise TidemarkError(
            "option",
            f"durability is {value!r}",
            hint='"process": a commit survives the death of the process; "power": it survives a loss of power, too',
        )
    return value


def _publish(value: object) -> Rhythm:
    """When relations of a lake are published: a word, a span of time with its unit, or a number of versions."""
    if value in ("commit", "close"):
        return Rhythm(versions=1 if value == "commit" else None)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return Rhythm(versions=value)
    if isinstance(value, str) and not value.strip().isdigit():
        with suppress(TidemarkError):
            seconds = seconds_of(value)
            if seconds is not None:
                return Rhythm(seconds=seconds)
    raise TidemarkError(
        "option",
        f"publish is {value!r}",
        hint='"commit", "close", a span of time such as "1s", or after how many versions, as a number',
    )


def _run(value: object) -> object:
    if value not in ("auto", "spark", "process"):
        raise TidemarkError(
            "option",
            f"run is {value!r}",
            hint='"auto": sizes choose where plans over a lake run; "spark": what reads stored rows runs on Spark; '
            '"process": all runs in this process',
        )
    return value


def _storage(value: object) -> tuple[tuple[str, str], ...]:
    """How to reach an object store: words and texts, most of which are the store's own."""
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and isinstance(said, str | os.PathLike | bool) for name, said in value.items()
    ):
        raise TidemarkError(
            "option",
            "storage is a dict of texts by name",
            hint="such as {'endpoint': 'https://…', 'region': '…', 'access_key_id': '…', 'secret_access_key': '…'}",
        )
    if value.get("spark", "s3a") not in ("s3a", "files"):
        raise TidemarkError(
            "option",
            f"storage has {value['spark']!r} for spark",
            hint='"s3a": Spark reads and writes the bucket itself; "files": it has the files of this machine',
        )
    return tuple(
        (name, str(said).lower() if isinstance(said, bool) else os.fspath(said)) for name, said in value.items()
    )


OPTIONS: Final[Mapping[str, Callable[[object], object]]] = {
    "busy_timeout": waiting_seconds,
    "durability": _durability,
    "publish": _publish,
    "run": _run,
    "statement_timeout": seconds_of,
    "storage": _storage,
}
"""What ``connect(options=…)`` takes, and how each value is read."""
OF_LAKES: Final[Mapping[str, str]] = {
    "publish": "publishes nothing",
    "run": "has no Spark",
    "storage": "lies on no object store",
}
"""Options that lakes alone have, and what is said of a database that is none."""
DEFAULTS: Final[Mapping[str, object]] = {
    "busy_timeout": DEFAULT_SECONDS,
    "durability": "process",
    "publish": "1s",
    "run": "auto",
    "statement_timeout": None,
    "storage": {},
}


def options_of(given: Mapping[str, object] | None) -> dict[str, Any]:
    """All options: those that were given, read, and what the others are by default; an error names what is not known.

    >>> options_of({"busy_timeout": "5s"})["busy_timeout"]
    5.0
    """
    if given is not None and not isinstance(given, Mapping):
        raise TidemarkError("option", f"options are given by name, in a dict, not as a {type(given).__name__}")
    unknown = [name for name in given or {} if name not in OPTIONS]
    if unknown:
        raise TidemarkError(
            "option", f"there is no option {unknown[0]!r}", hint=f"options are: {', '.join(sorted(OPTIONS))}"
        )
    return {name: OPTIONS[name](value) for name, value in {**DEFAULTS, **(given or {})}.items()}


class AllowedPaths:
    """Files and folders, with all that is below them. None unless some are named."""

    def __init__(self, paths: Iterable[str | os.PathLike[str]] = ()) -> None:
        if isinstance(paths, str | os.PathLike):
            raise TidemarkError("option", "allow_paths is a list of paths", hint=f"write allow_paths=[{str(paths)!r}]")
        if not isinstance(paths, Iterable):
            raise TidemarkError("option", f"allow_paths is a list of paths, not {paths!r}")
        self._allowed = tuple(_real(path_of(path, "option")) for path in paths)

    def must_allow(self, path: str, what: str, does: str = "write to") -> None:
        """Refuse a path that nobody allowed, wherever its links lead."""
        real = _real(path_of(path, "backup"))
        if not any(real == allowed or allowed in real.parents for allowed in self._allowed):
            raise TidemarkError(
                "not_allowed",
                f"{what} may not {does} {path}",
                hint=f"the program that connects allows it: connect(…, allow_paths=[{str(real.parent)!r}])",
            )

    def must_let_read(self, path: str) -> None:
        """Refuse a path that nobody allowed to be read."""
        self.must_allow(path, "a source", "read")


def path_of(given: object, code: str) -> str:
    """A path as a text, or an error of this code: what the system cannot take as one would be told by Python itself.

    >>> path_of(Path("backups") / "monday", "backup")
    'backups/monday'
    """
    path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(path, str):
        raise TidemarkError(code, f"{given!r} is no path", hint="a path is a text or a pathlib.Path")
    if "\0" in path or half_character(path) is not None:
        raise TidemarkError(code, f"{path!r} is no path: it has a character that no path can have")
    return path


def _real(path: str) -> Path:
    return Path(os.path.realpath(Path(path).expanduser()))
