"""A lake that Spark itself reads and writes in its bucket, in a process of its own: its Spark needs more jars.

Run as a program with the url of a lake; everything that is stored is read by Spark.
"""

from __future__ import annotations

import os
import sys

import tidemark as tm
from tests.support import check_invariant, rows
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.session import ON_SPARK


def main(url: str) -> None:
    keys = {"access_key_id": os.environ["AWS_ACCESS_KEY_ID"], "secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"]}
    engine = SparkEngine(url, storage=(("spark", "s3a"), *keys.items()), inline_rows=5, **ON_SPARK)
    with tm.Database(engine) as db:
        db.execute("CREATE TABLE t (a INT, b INT)")
        db.insert("t", [(number, number % 7) for number in range(1000)])
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b")
        db.execute("INSERT INTO t VALUES (5000, 1); DELETE FROM t WHERE a < 100; CHECKPOINT")
        check_invariant(db)
        assert engine._verified.store.is_far
        print(sorted(rows(db.query("SELECT b, n FROM v"))))


if __name__ == "__main__":
    main(sys.argv[1])
