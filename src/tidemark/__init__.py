"""Tidemark keeps derived data true while the data under it changes.

>>> import tidemark as tm
>>> db = tm.connect("duckdb")
>>> _ = db.execute("CREATE TABLE stock (item INT PRIMARY KEY, quantity INT)")
>>> _ = db.execute("CREATE MATERIALIZED VIEW low AS SELECT item FROM stock WHERE quantity < 10")
>>> _ = db.execute("INSERT INTO stock VALUES (1, 5), (2, 50)")
>>> db.changes("low").drop_columns(["_time"]).to_pylist()
[{'item': 1, '_version': 3, '_weight': 1}]
>>> db.close()
"""

from tidemark.errors import (
    ConstraintError,
    EvaluationError,
    InternalError,
    InUseError,
    Place,
    StatementError,
    StorageError,
    TidemarkError,
    TransactionError,
    UnsupportedError,
    VersionError,
)
from tidemark.session import (
    Advice,
    Change,
    Classification,
    Database,
    Relation,
    Result,
    Results,
    Subscription,
    Synced,
    Transaction,
    connect,
)

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "Change",
    "Classification",
    "ConstraintError",
    "Database",
    "EvaluationError",
    "InUseError",
    "InternalError",
    "Place",
    "Relation",
    "Result",
    "Results",
    "StatementError",
    "StorageError",
    "Subscription",
    "Synced",
    "TidemarkError",
    "Transaction",
    "TransactionError",
    "UnsupportedError",
    "VersionError",
    "connect",
]
