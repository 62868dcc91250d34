"""Tidemark keeps derived data true while the data under it changes.

>>> import tidemark as tm
>>> db = tm.connect("duckdb")
>>> _ = db.execute("CREATE TABLE stock (item INT PRIMARY KEY, quantity INT)")
>>> _ = db.execute("CREATE MATERIALIZED VIEW low AS SELECT item FROM stock WHERE quantity < 10")
>>> _ = db.execute("INSERT INTO stock VALUES (1, 5), (2, 50)")
>>> db.changes("low").to_pylist()
[{'item': 1, '_version': 3, '_weight': 1}]
>>> db.close()
"""

from tidemark.database import (
    Advice,
    Change,
    Classification,
    Database,
    Result,
    Results,
    Subscription,
    Synced,
    Transaction,
    connect,
)
from tidemark.errors import Place, TidemarkError

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "Change",
    "Classification",
    "Database",
    "Place",
    "Result",
    "Results",
    "Subscription",
    "Synced",
    "TidemarkError",
    "Transaction",
    "connect",
]
