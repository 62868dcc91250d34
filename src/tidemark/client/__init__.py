"""Moving work to the client: a view that is held, or evaluated, where it is needed, and learns of changes only.

>>> import tidemark as tm
>>> from tidemark.client import LocalView, ViewSource
>>> db = tm.connect("duckdb")
>>> _ = db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 5), (2, 50)")
>>> _ = db.execute("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t WHERE b > 10")
>>> source = ViewSource(db, "v")
>>> local = LocalView(source.first())
>>> _ = db.execute("INSERT INTO t VALUES (3, 70), (4, 2)")
>>> _ = local.apply(source.changes(since=local.tidemark))
>>> local.content.to_pylist()
[{'n': 2}]
>>> local.close(); db.close()
"""

from tidemark.client.holder import ViewHolder
from tidemark.client.local_view import LocalView
from tidemark.client.source import ViewSource

__all__ = ["LocalView", "ViewHolder", "ViewSource"]
