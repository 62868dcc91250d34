"""Spark's errors in Tidemark's words: one line, a stable code, no JVM stack."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidemark.algebra.functions import failure_code
from tidemark.errors import TidemarkError
from tidemark.storage.disk import storage_trouble

_JAVA: Final = re.compile(r"^An error occurred while calling \S+\s*: ([\w.]+: )?")
_CANCELLED: Final = re.compile(r"\[(SPARK_JOB_CANCELLED|OPERATION_CANCELED)\]")
_OWN: Final = re.compile(r"\b(division_by_zero|overflow|invalid_value|cardinality): ?([^\n]*)")


def translated(error: PySparkException | Py4JError) -> TidemarkError:
    """An error that evaluating a plan raised: overflow, division by zero, a value that cannot be cast.

    What PySpark has no exception of its own for, a cancelled job among others, comes as py4j hands it on.
    """
    if _CANCELLED.search(str(error)):
        return TidemarkError("interrupted", "the statement was interrupted", hint="run it again if it is needed")
    trouble = storage_trouble(error)
    if trouble is not None:
        return trouble
    if isinstance(error, Py4JError):
        return TidemarkError("evaluation_failed", one_line(_JAVA.sub("", str(error))))
    text = error.getMessage() or str(error)
    own = _OWN.search(text)
    if own:
        return TidemarkError(own.group(1), own.group(2).strip(" '\"") or own.group(1).replace("_", " "))
    code = failure_code(f"[{error.getCondition() or ''}] {text}")
    return TidemarkError(code or "evaluation_failed", one_line(text))


def one_line(text: str) -> str:
    """What Spark says of itself, without the condition's name, its advice and the SQL that it quotes.

    >>> one_line("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate it. SQLSTATE: 22012\\n== SQL ==")
    'Division by zero'
    """
    first = next((line for line in text.splitlines() if line.strip()), "Spark gave no reason")
    first = re.sub(r"^.*?\[[A-Z_.0-9]+\] ", "", first)
    first = re.sub(r" SQLSTATE: \w+$", "", first)
    first = re.sub(r"\. (If necessary|Use `try|To return NULL).*$", "", first)
    return first.strip().rstrip(".")[:300]
