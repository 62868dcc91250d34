"""Many selective views over one table, and transactions of one row that matter to three of them.

View number k shows the readings with a value from 10k to 10k + 29. The ranges overlap, so that each value stands in
three of them. Half of the views join the readings with a second table, and it is the second table's column that they
restrict: what that means for a reading has to be concluded. Every 50th view counts and adds up by sensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

import pyarrow as pa

STEP: Final = 10
AMONG: Final = 3
"""In how many views each value stands."""
GROUPED: Final = 50
LEAST: Final = GROUPED + AMONG
"""With fewer views there would be no grouped one among the three."""
SENSORS: Final = 100
TABLES: Final = {
    "reading": "id INT PRIMARY KEY, sensor INT NOT NULL, value INT NOT NULL",
    "grade": "value INT PRIMARY KEY, name VARCHAR NOT NULL",
}


def definition(number: int) -> str:
    """The query of one view."""
    low, high = STEP * number, STEP * (number + AMONG)
    if number % GROUPED == 0:
        return (
            "SELECT sensor, COUNT(*) AS readings, SUM(value) AS total FROM reading "
            f"WHERE value >= {low} AND value < {high} GROUP BY sensor"
        )
    if number % 2:
        return (
            "SELECT r.id, r.sensor, g.name FROM reading r JOIN grade g ON g.value = r.value "
            f"WHERE g.value >= {low} AND g.value < {high}"
        )
    return f"SELECT id, sensor, value FROM reading WHERE value >= {low} AND value < {high}"


def created(number: int) -> str:
    return f"CREATE MATERIALIZED VIEW v{number} AS {definition(number)}"


def chosen(views: int) -> tuple[int, ...]:
    """The three views that the transactions matter to: one that joins, a plain one, and a grouped one."""
    last = views // 2 // GROUPED * GROUPED or GROUPED
    return tuple(range(last - AMONG + 1, last + 1))


def rows(table: str, views: int) -> pa.Table:
    """A row of each value that stands in some view."""
    values = range(STEP * (views + AMONG - 1))
    if table == "grade":
        names = pa.array([f"grade {value}" for value in values])
        return pa.table({"value": pa.array(values, pa.int32()), "name": names})
    sensors = pa.array([value % SENSORS for value in values], pa.int32())
    ids = pa.array(values, pa.int32())
    return pa.table({"id": ids, "sensor": sensors, "value": ids})


def transactions(views: int, first: int = 100_000_000) -> Iterator[str]:
    """Statements without end: a reading that stands in the three chosen views comes, gets another sensor, and goes.

    ``first`` is the key of the first of these readings.
    """
    value = STEP * chosen(views)[-1] + STEP // 2
    for key in count(first):
        yield f"INSERT INTO reading VALUES ({key}, {key % SENSORS}, {value})"
        yield f"UPDATE reading SET sensor = {(key + 1) % SENSORS} WHERE id = {key}"
        yield f"DELETE FROM reading WHERE id = {key}"
