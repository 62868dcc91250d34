"""Every function and cast, on the reference and on DuckDB, by example and over the ends of every type's range."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from cast_cases import CASTS
from function_cases import CALLS, Case, Fails
from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import (
    FUNCTIONS,
    NAN,
    Signature,
    assignment_cast_allowed,
    cast_fails,
    cast_value,
    duckdb_cast,
    duckdb_type,
    explicit_cast_allowed,
    failure_code,
    implicit_cast_allowed,
)
from tidemark.algebra.functions.documentation import render
from tidemark.algebra.functions.values import fit
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    Type,
    decimal,
)
from tidemark.errors import TidemarkError

CASES = CALLS + CASTS


def signature_of(case: Case) -> Signature:
    if case.target is not None:
        return Signature(case.types, case.target)
    signature = FUNCTIONS[case.name].resolve(case.types)
    assert signature is not None, f"{case} is refused"
    return signature


def meaning(case: Case) -> Value:
    if case.target is not None:
        return cast_value(case.values[0], case.types[0], case.target)
    function, signature = FUNCTIONS[case.name], signature_of(case)
    values = tuple(map(cast_value, case.values, case.types, signature.arguments))
    return None if function.strict and None in values else function.meaning(values, signature)


def duckdb_sql(case: Case, arguments: tuple[str, ...]) -> str:
    if case.target is not None:
        return duckdb_cast(arguments[0], case.types[0], case.target)
    signature = signature_of(case)
    return FUNCTIONS[case.name].duckdb(tuple(map(duckdb_cast, arguments, case.types, signature.arguments)), signature)


def same(left: Value, right: Value) -> bool:
    """Equal to the last digit: the same type, scale and sign of zero."""
    return type(left) is type(right) and (left is right or repr(left) == repr(right))


def expected(case: Case) -> Value:
    result = signature_of(case).result
    assert not isinstance(case.expected, Fails)
    return fit(case.expected, result) if case.expected is not None and result.is_exact else case.expected


def duckdb_literal(value: Value, type: Type) -> str:
    if value is None:
        return "NULL" if type == NULL else f"CAST(NULL AS {duckdb_type(type)})"
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    return f"CAST('{text.replace(chr(39), chr(39) * 2)}' AS {duckdb_type(type)})"


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def run(connection: duckdb.DuckDBPyConnection, sql: str, types: tuple[Type, ...], rows: list[tuple[Value, ...]]) -> pa.Table:
    columns = {f"c{i}": pa.array([row[i] for row in rows], type.arrow) for i, type in enumerate(types)}
    connection.register("given", pa.table({"place": pa.array(range(len(rows))), **columns}))
    return connection.sql(f"SELECT {sql} AS answer FROM given ORDER BY place").to_arrow_table()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_reference_gives_the_expected_value(case: Case) -> None:
    if isinstance(case.expected, Fails):
        with pytest.raises(TidemarkError) as error:
            meaning(case)
        assert error.value.code == case.expected.code
    else:
        assert same(meaning(case), expected(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_duckdb_gives_the_expected_value_for_columns_and_constants(case: Case, connection: duckdb.DuckDBPyConnection) -> None:
    columns = tuple(f"c{i}" for i in range(len(case.types)))
    constants = tuple(map(duckdb_literal, case.values, case.types))
    for arguments in (columns, constants):
        sql = duckdb_sql(case, arguments)
        if isinstance(case.expected, Fails):
            with pytest.raises(duckdb.Error) as error:
                run(connection, sql, case.types, [case.values])
            assert failure_code(str(error.value)) == case.expected.code
            # The failure stays asleep in a branch that is not taken.
            asleep = run(connection, f"CASE WHEN place > 0 THEN {sql} END", case.types, [case.values])
            assert asleep["answer"].to_pylist() == [None]
        else:
            answer = run(connection, sql, case.types, [case.values])["answer"]
            assert answer.type == signature_of(case).result.arrow
            assert same(answer[0].as_py(), expected(case))


def test_every_function_has_cases_and_a_failing_one_if_it_can_fail() -> None:
    assert {case.name for case in CALLS} == set(FUNCTIONS)
    failing = {case.name for case in CALLS if isinstance(case.expected, Fails)}
    assert failing == {name for name, function in FUNCTIONS.items() if function.fails}


EXTREMES: dict[Type, list[Value]] = {
    BOOLEAN: [None, True, False],
    SMALLINT: [None, 0, 1, -1, 7, -7, 32767, -32768],
    INT: [None, 0, 1, -1, 3, 29, 2024, 2**31 - 1, -(2**31)],
    BIGINT: [None, 0, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63)],
    DOUBLE: [None, 0.0, 0.5, -0.5, 2.5, 0.1 + 0.2, 5e-324, -1e308, 2.0**63, 2.0**52 - 0.5, math.inf, -math.inf, NAN],
    decimal(3, 3): [None, *map(Decimal, ("0.000", "0.999", "-0.500"))],
    decimal(18, 2): [None, *map(Decimal, ("0.00", "2.50", "-2.55", "9999999999999999.99", "-9999999999999999.99"))],
    decimal(38, 10): [None, Decimal("0.0000000000"), Decimal(10**38 - 1).scaleb(-10), Decimal("-7.4500000000")],
    VARCHAR: [None, "", " ", "a", "Ab%", "a_\n", "\\%", "e\u0301x", "\U0001f926", "12", " -7.5 ", "2024-02-29", "TRUE"],
    DATE: [None, *(dt.date(*d) for d in ((1, 1, 1), (1582, 10, 10), (1969, 12, 31), (2024, 2, 29), (9999, 12, 31)))],
    TIMESTAMP: [None, dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime.max],
}
NON_LITERAL_PATTERN = {"like", "ilike"}


def check_agreement(connection: duckdb.DuckDBPyConnection, calls: list[Case], sql: str) -> None:
    """All rows that succeed in one query; each that fails by itself, since the first failure ends a query."""
    rows: list[tuple[Value, ...]] = []
    answers: list[Value] = []
    failures: list[tuple[Case, str]] = []
    for case in calls:
        try:
            answers.append(meaning(case))
            rows.append(case.values)
        except TidemarkError as error:
            failures.append((case, error.code))
    for case, given in zip(calls, run(connection, sql, calls[0].types, rows)["answer"].to_pylist(), strict=False):
        del case, given
        break
    for row, answer, given in zip(rows, answers, run(connection, sql, calls[0].types, rows)["answer"].to_pylist(), strict=True):
        assert same(answer, given), f"{calls[0].name}{row}: {answer!r} in Python, {given!r} in DuckDB"
    for case, code in failures[:25]:
        with pytest.raises(duckdb.Error) as raised:
            run(connection, sql, case.types, [case.values])
        assert failure_code(str(raised.value)) == code, str(case)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reference_and_duckdb_agree_at_the_ends_of_every_type(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    seen = set()
    for count in (1, 2, 3):
        for types in itertools.product(EXTREMES, repeat=count):
            signature = FUNCTIONS[name].resolve(types)
            if signature is None or signature in seen or len(set(types)) > 2:
                continue
            seen.add(signature)
            pools = [EXTREMES[type][:8] if count == 3 else EXTREMES[type] for type in types]
            calls = [Case(name, types, values) for values in itertools.product(*pools)]
            if name in NON_LITERAL_PATTERN:
                calls = [case for case in calls if case.values[1] != "\\"]
            check_agreement(connection, calls, duckdb_sql(calls[0], tuple(f"c{i}" for i in range(count))))
    assert seen
