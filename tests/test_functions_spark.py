"""Every function and cast on Spark, by the same examples as on the reference and DuckDB.

Cases that succeed run many to a query, since a query costs far more than what it computes. A case that fails needs a
query of its own, so one for each function and kind of failure has to do.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.cast_cases import CASTS
from tests.function_case import Case, Fails, same
from tests.function_cases import CALLS
from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import canonical, failure_code, spark_type
from tidemark.algebra.types import NULL, VARCHAR, Type

pytestmark = pytest.mark.spark

CASES_PER_QUERY = 150
SUCCEEDING = [case for case in CALLS + CASTS if not isinstance(case.expected, Fails)]
BATCHES = [SUCCEEDING[start : start + CASES_PER_QUERY] for start in range(0, len(SUCCEEDING), CASES_PER_QUERY)]
FAILING = {
    (case.name, case.expected, case.types if case.target else (), case.target): case
    for case in CALLS + CASTS
    if isinstance(case.expected, Fails)
}


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    from tidemark.engines.spark.session import own_session

    return own_session(spark)


def literal(value: Value, type: Type) -> str:
    if value is None:
        return "NULL" if type == NULL else f"CAST(NULL AS {spark_type(type)})"
    if isinstance(value, tuple) and type.element is not None:
        elements = ", ".join(literal(element, type.element) for element in value)
        return f"CAST(array({elements}) AS {spark_type(type)})"
    if isinstance(value, tuple):
        parts = (literal(part, of) for part, of in zip(value, type.parts, strict=True))
        return f"CAST(struct({', '.join(parts)}) AS {spark_type(type)})"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    quoted = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return quoted if type == VARCHAR else f"CAST({quoted} AS {spark_type(type)})"


def frame_of(session: Any, cases: list[Case]) -> Any:
    """One row, with a column for each argument of each case."""
    columns = {
        f"c{number}_{place}": pa.array([value], type.arrow)
        for number, case in enumerate(cases)
        for place, (value, type) in enumerate(zip(case.values, case.types, strict=True))
    }
    return session.createDataFrame(pa.table(columns))


def column_names(case: Case, number: int) -> tuple[str, ...]:
    return tuple(f"c{number}_{place}" for place in range(len(case.types)))


def check(cases: list[Case], answers: pa.Table) -> None:
    for case, answer in zip(cases, answers.columns, strict=True):
        # Spark says of the parts of a value whether they can be NULL, which is no part of our types.
        given = pa.list_(answer.type.value_type) if pa.types.is_list(answer.type) else answer.type
        if pa.types.is_struct(given):
            given = pa.struct([field.with_nullable(True) for field in given])
        assert given == case.signature.result.arrow, str(case)
        assert same(canonical(answer[0].as_py()), case.answer), f"{case}: {answer[0]} on Spark"


@pytest.mark.parametrize("cases", BATCHES, ids=lambda cases: f"{cases[0].name} to {cases[-1].name}")
def test_spark_gives_the_expected_values_for_columns(session: Any, cases: list[Case]) -> None:
    calls = [case.spark(column_names(case, number)) for number, case in enumerate(cases)]
    check(cases, frame_of(session, cases).selectExpr(*calls).toArrow())


@pytest.mark.parametrize("cases", BATCHES, ids=lambda cases: f"{cases[0].name} to {cases[-1].name}")
def test_spark_gives_the_expected_values_for_constants(session: Any, cases: list[Case]) -> None:
    calls = (case.spark(tuple(map(literal, case.values, case.types))) for case in cases)
    columns = ", ".join(f"{call} AS c{number}" for number, call in enumerate(calls))
    check(cases, session.sql(f"SELECT {columns}").toArrow())


@pytest.mark.parametrize("case", FAILING.values(), ids=str)
def test_spark_fails_with_the_expected_code(session: Any, case: Case) -> None:
    from pyspark.errors import PySparkException

    assert isinstance(case.expected, Fails)
    call = case.spark(column_names(case, 0))
    frame = frame_of(session, [case])
    with pytest.raises(PySparkException) as error:
        frame.selectExpr(call).collect()
    assert failure_code(str(error.value)) == case.expected.code


def test_a_failure_stays_asleep_in_a_branch_that_is_not_taken(session: Any) -> None:
    cases = list(FAILING.values())
    constants = [case.spark(tuple(map(literal, case.values, case.types))) for case in cases]
    columns = [case.spark(column_names(case, number)) for number, case in enumerate(cases)]
    asleep = [f"CASE WHEN c0_0 IS NULL AND c0_0 IS NOT NULL THEN {call} END" for call in constants + columns]
    (row,) = frame_of(session, cases).selectExpr(*asleep).collect()
    assert set(row) == {None}
