"""Errors and warnings on the standard error stream, without tracebacks."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tidemark.cli.show import Display, console_for
from tidemark.errors import TidemarkError


class Warnings(logging.Handler):
    """What the engines log, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        reason = f": {next(iter(str(error).splitlines()), '')}" if error is not None else ""
        Display(console_for(stderr=True), None).note(f"warning: {record.getMessage()}{reason}")


class Stopped(Exception):
    """An error in the middle of a script, with a note on where that leaves the database."""

    def __init__(self, error: TidemarkError, note: str) -> None:
        super().__init__(note)
        self.error, self.note = error, note


@contextmanager
def errors_shown(name: str | None = None) -> Iterator[None]:
    """Show errors and leave with exit code 1. ``name`` is that of the script in which their places are."""
    try:
        yield
    except (BrokenPipeError, typer.Exit):
        raise
    except Exception as error:
        display = Display(console_for(stderr=True), None)
        match error:
            case Stopped(error=inner, note=note):
                display.error(inner, name)
                display.note(note)
            case _:
                display.error(as_error(error), name)
        raise typer.Exit(1) from error


def as_error(error: Exception) -> TidemarkError:
    """The error itself if it is one of ours; else what is said of a fault, unless its traceback is wanted."""
    if isinstance(error, TidemarkError):
        return error
    if os.environ.get("TIDEMARK_TRACEBACK"):
        raise error
    first = next(iter(str(error).splitlines()), "")
    return TidemarkError(
        "internal",
        f"{type(error).__name__}: {first}",
        hint="this is a fault in Tidemark: please report it; with TIDEMARK_TRACEBACK=1 it shows where it arose",
    )
