"""Every function and cast, on the reference and on DuckDB, by example and over the ends of every type's range."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from scripts.functions_reference import render
from tests.cast_cases import CASTS
from tests.function_case import Case, Fails, same
from tests.function_cases import CALLS
from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import (
    FUNCTIONS,
    GROUPS,
    NAN,
    assignment_cast_allowed,
    canonical,
    cast_fails,
    cast_value,
    duckdb_type,
    explicit_cast_allowed,
    failure_code,
    implicit_cast_allowed,
)
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INT,
    NULL,
    REAL,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Type,
    decimal,
)
from tidemark.errors import TidemarkError

CASES = CALLS + CASTS
BY_NAME = {name: [case for case in CASES if case.name == name] for name in dict.fromkeys(case.name for case in CASES)}
"""A test for each function, since one for each of thousands of cases takes longer to collect than to run."""


def duckdb_literal(value: Value, type: Type) -> str:
    if value is None:
        return "NULL" if type == NULL else f"CAST(NULL AS {duckdb_type(type)})"
    if isinstance(value, tuple) and type.element is not None:
        elements = ", ".join(duckdb_literal(element, type.element) for element in value)
        return f"CAST([{elements}] AS {duckdb_type(type)})"
    if isinstance(value, tuple):
        parts = (duckdb_literal(part, of) for part, of in zip(value, type.parts, strict=True))
        return f"CAST(row({', '.join(parts)}) AS {duckdb_type(type)})"
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    return f"CAST('{text.replace(chr(39), chr(39) * 2)}' AS {duckdb_type(type)})"


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def run(
    connection: duckdb.DuckDBPyConnection, sql: str, types: tuple[Type, ...], rows: list[tuple[Value, ...]]
) -> pa.ChunkedArray:
    columns = {f"c{i}": pa.array([row[i] for row in rows], type.arrow) for i, type in enumerate(types)}
    connection.register("given", pa.table({"place": pa.array(range(len(rows))), **columns}))
    return connection.sql(f"SELECT {sql} AS answer FROM given ORDER BY place").to_arrow_table()["answer"]


@pytest.mark.parametrize("name", BY_NAME)
def test_the_reference_gives_the_expected_values(name: str) -> None:
    for case in BY_NAME[name]:
        check_reference(case)


def check_reference(case: Case) -> None:
    if isinstance(case.expected, Fails):
        with pytest.raises(TidemarkError) as error:
            case.reference(case.values)
        assert error.value.code == case.expected.code, str(case)
    else:
        assert same(case.reference(case.values), case.answer), str(case)


@pytest.mark.parametrize("name", BY_NAME)
def test_duckdb_gives_the_expected_values_for_columns_and_constants(
    name: str, connection: duckdb.DuckDBPyConnection
) -> None:
    for case in BY_NAME[name]:
        check_duckdb(case, connection)


def check_duckdb(case: Case, connection: duckdb.DuckDBPyConnection) -> None:
    columns = tuple(f"c{i}" for i in range(len(case.types)))
    constants = tuple(map(duckdb_literal, case.values, case.types))
    for arguments in (columns, constants):
        sql = case.duckdb(arguments)
        if isinstance(case.expected, Fails):
            with pytest.raises(duckdb.Error) as error:
                run(connection, sql, case.types, [case.values])
            assert failure_code(str(error.value)) == case.expected.code
            # The failure stays asleep in a branch that is not taken.
            asleep = run(connection, f"CASE WHEN place > 0 THEN {sql} END", case.types, [case.values])
            assert asleep.to_pylist() == [None]
        else:
            answer = run(connection, sql, case.types, [case.values])
            assert answer.type == case.signature.result.arrow
            assert same(canonical(answer[0].as_py()), case.answer)


def test_every_function_has_cases_and_a_failing_one_if_it_can_fail() -> None:
    assert {case.name for case in CALLS} == set(FUNCTIONS)
    failing = {case.name for case in CALLS if isinstance(case.expected, Fails)}
    assert failing == {name for name, function in FUNCTIONS.items() if function.fails}


EXTREMES: dict[Type, list[Value]] = {
    BOOLEAN: [None, True, False],
    SMALLINT: [None, 0, 1, -1, 7, -7, 32767, -32768],
    INT: [None, 0, 1, -1, 3, 29, 2024, 2**31 - 1, -(2**31)],
    BIGINT: [None, 0, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63)],
    DOUBLE: [
        None,
        0.0,
        0.5,
        -0.5,
        2.5,
        0.1 + 0.2,
        5e-324,
        -1e308,
        2.0**63,
        2.0**52 - 0.5,
        math.inf,
        -math.inf,
        NAN,
    ],
    decimal(3, 3): [None, *map(Decimal, ("0.000", "0.999", "-0.500"))],
    decimal(18, 2): [
        None,
        *map(Decimal, ("0.00", "2.50", "-2.55", "9999999999999999.99", "-9999999999999999.99")),
    ],
    decimal(38, 10): [
        None,
        Decimal("0.0000000000"),
        Decimal("9999999999999999999999999999.9999999999"),
        Decimal("-7.4500000000"),
    ],
    VARCHAR: [
        None,
        "",
        " ",
        "a",
        "Ab%",
        "a_\n",
        "\\%",
        "e\u0301x",
        "\U0001f926",
        "12",
        " -7.5 ",
        "2024-02-29",
        "TRUE",
    ],
    DATE: [
        None,
        *(dt.date(*d) for d in ((1, 1, 1), (1582, 10, 10), (1969, 12, 31), (2024, 2, 29), (9999, 12, 31))),
    ],
    TIMESTAMP: [None, dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime.max],
    TIMESTAMPTZ: [
        None,
        *(moment.replace(tzinfo=dt.UTC) for moment in (dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59))),
        dt.datetime.max.replace(tzinfo=dt.UTC),
    ],
    REAL: [None, 0.0, 2.5, -0.5, 0.10000000149011612, 2.0**63, 2.0**-149, -(2.0**127), math.inf, -math.inf, NAN],
    BYTEA: [None, b"", b"\0", b"a\xff", b"\\x00"],
}


def check_agreement(connection: duckdb.DuckDBPyConnection, case: Case, rows: Iterable[tuple[Value, ...]]) -> None:
    """The case with the values of each row: all that succeed in one query, and some of those that fail in their own."""
    answers: list[tuple[tuple[Value, ...], Value]] = []
    failures: list[tuple[tuple[Value, ...], str]] = []
    for row in rows:
        try:
            answers.append((row, case.reference(row)))
        except TidemarkError as error:
            failures.append((row, error.code))
    sql = case.duckdb(tuple(f"c{i}" for i in range(len(case.types))))
    given = run(connection, sql, case.types, [row for row, _ in answers]).to_pylist()
    for (row, answer), found in zip(answers, given, strict=True):
        assert same(answer, found), f"{case.name}{row}: {answer!r} in Python, {found!r} in DuckDB"
    for row, code in failures[:: len(failures) // 5 + 1]:
        with pytest.raises(duckdb.Error) as raised:
            run(connection, sql, case.types, [row])
        assert failure_code(str(raised.value)) == code, f"{case.name}{row}"


OF_OTHERS = {name for name in FUNCTIONS if name.startswith("regexp_")} | {
    function.name for function in GROUPS["Arrays"] + GROUPS["Structs"]
}
"""These take arrays or make structs, or take patterns that the binder has written; any other text is none."""


OF_MANY: dict[str, list[tuple[Type, ...]]] = {
    "width_bucket": [(decimal(18, 2),) * 3 + (INT,), (DOUBLE,) * 3 + (INT,)],
    "make_timestamp": [(INT,) * 6],
}
"""These take more than three arguments, of which all the ends would be too many."""


@pytest.mark.parametrize("name", OF_MANY)
def test_reference_and_duckdb_agree_on_functions_of_many_arguments(
    name: str, connection: duckdb.DuckDBPyConnection
) -> None:
    chosen = random.Random(name)
    for types in OF_MANY[name]:
        pools = [[*EXTREMES[type], 1, 2, 3] if type == INT else EXTREMES[type] for type in types]
        rows = [tuple(chosen.choice(pool) for pool in pools) for _ in range(400)]
        check_agreement(connection, Case(name, types, (None,) * len(types)), rows)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - OF_OTHERS - set(OF_MANY)))
def test_reference_and_duckdb_agree_at_the_ends_of_every_type(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    signatures = {
        FUNCTIONS[name].resolve(types) for count in (1, 2, 3) for types in itertools.product(EXTREMES, repeat=count)
    }
    resolved = [signature for signature in signatures if signature and set(signature.arguments) <= set(EXTREMES)]
    assert resolved
    for signature in resolved:
        types = signature.arguments
        pools = [EXTREMES[type][:6] if len(types) == 3 else EXTREMES[type] for type in types]
        check_agreement(connection, Case(name, types, (None,) * len(types)), itertools.product(*pools))


@pytest.mark.parametrize("source", EXTREMES, ids=str)
def test_casts_of_reference_and_duckdb_agree_at_the_ends_of_every_type(
    source: Type, connection: duckdb.DuckDBPyConnection
) -> None:
    for target in EXTREMES:
        if explicit_cast_allowed(source, target):
            case = Case("cast", (source,), (None,), target=target)
            check_agreement(connection, case, ((value,) for value in EXTREMES[source]))


def test_a_cast_that_says_it_never_fails_does_not() -> None:
    for source, target in itertools.product(EXTREMES, repeat=2):
        if explicit_cast_allowed(source, target) and cast_fails(source, target) is None:
            for value in EXTREMES[source]:
                cast_value(value, source, target)


def test_implicit_casts_widen_and_assignments_may_also_narrow_numbers() -> None:
    widening = [(SMALLINT, INT), (INT, decimal(10, 0)), (decimal(5, 2), decimal(6, 3)), (BIGINT, DOUBLE)]
    for source, target in [*widening, (decimal(38, 10), DOUBLE), (DATE, TIMESTAMP), (NULL, VARCHAR)]:
        assert implicit_cast_allowed(source, target)
        assert not implicit_cast_allowed(target, source)
    for source, target in [(BIGINT, SMALLINT), (DOUBLE, INT), (DOUBLE, decimal(5, 2)), (decimal(9, 2), INT)]:
        assert assignment_cast_allowed(source, target)
    for source, target in [(VARCHAR, INT), (INT, VARCHAR), (BOOLEAN, INT), (TIMESTAMP, DATE)]:
        assert explicit_cast_allowed(source, target)
        assert not assignment_cast_allowed(source, target)
    for source, target in [(DOUBLE, VARCHAR), (BOOLEAN, BIGINT), (DATE, INT), (INT, NULL), (DOUBLE, BOOLEAN)]:
        assert not explicit_cast_allowed(source, target)


REFUSED: list[tuple[str, tuple[Type, ...]]] = [
    ("add", (INT, VARCHAR)),
    ("add", (NULL, NULL)),
    ("add", (DATE, DATE)),
    ("add", (DATE, BIGINT)),
    ("add", (DATE, DOUBLE)),
    ("subtract", (INT, DATE)),
    ("subtract", (TIMESTAMP, TIMESTAMP)),
    ("multiply", (decimal(38, 20), decimal(38, 19))),
    ("divide", (decimal(38, 20), INT)),
    ("divide", (DATE, INT)),
    ("shift_left", (SMALLINT, INT)),
    ("bit_and", (INT, DOUBLE)),
    ("sqrt", (VARCHAR,)),
    ("add_months", (TIMESTAMP, BIGINT)),
    ("negate", (BOOLEAN,)),
    ("round", (decimal(5, 2), INT)),
    ("eq", (INT, VARCHAR)),
    ("eq", (BOOLEAN, INT)),
    ("and", (BOOLEAN,)),
    ("and", (BOOLEAN, INT)),
    ("coalesce", ()),
    ("coalesce", (INT, DATE)),
    ("in_list", (INT,)),
    ("concat", (VARCHAR, INT)),
    ("left", (VARCHAR, BIGINT)),
    ("extract_year", (VARCHAR,)),
    ("extract_hour", (DATE,)),
    ("extract_second", (DATE,)),
]


@pytest.mark.parametrize(("name", "types"), REFUSED, ids=str)
def test_what_has_no_one_meaning_is_refused(name: str, types: tuple[Type, ...]) -> None:
    assert FUNCTIONS[name].resolve(types) is None


def test_only_functions_that_say_so_make_null_of_values() -> None:
    for case in CALLS:
        function = FUNCTIONS[case.name]
        if not function.nullable(tuple(value is None for value in case.values)):
            assert case.expected is not None, str(case)


def test_the_reference_page_lists_what_the_table_holds() -> None:
    page = Path(__file__).parents[1] / "docs" / "reference" / "functions.md"
    assert page.read_text(encoding="utf-8") == render(), (
        "write it anew: python scripts/functions_reference.py > docs/reference/functions.md"
    )
