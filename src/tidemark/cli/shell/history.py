"""Where the shell remembers what was typed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "TIDEMARK_HISTORY"
"""Names another file, or, if it is ``off`` or empty, none."""


def history_file() -> Path | None:
    """The file of the history, made if need be and readable by its owner alone; None if none is to be kept."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None and chosen.lower() in ("", "off"):
        return None
    path = Path(chosen).expanduser() if chosen else _state_folder() / "tidemark" / "history"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except OSError:
        return None  # a home that cannot be written to is no reason not to work
    return path


def _state_folder() -> Path:
    """XDG's folder for what programs remember; a relative path in the variable does not count there."""
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".local" / "state"
