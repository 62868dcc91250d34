"""Views at the client have the answer of the server, whatever engine that is, and whatever types go over."""

from __future__ import annotations

import tidemark as tm
from tests.support import bag_of
from tidemark.client import LocalView, ViewHolder, ViewSource

SPARK_VARIANTS = ("spark",)

SETUP = """
CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR, price DECIMAL(8, 2), made DATE, seen TIMESTAMP, rate DOUBLE,
    ok BOOLEAN, tags VARCHAR[], big BIGINT, real REAL, data BYTEA, moment TIMESTAMPTZ);
CREATE TABLE stock (item INT, place VARCHAR, n INT NOT NULL);
INSERT INTO item VALUES
    (1, 'a', 1.50, DATE '2027-01-01', TIMESTAMP '2027-01-01 10:00:00.000001', 0.1, TRUE, ARRAY['x', 'y'], 4000000000,
        0.1, '\\x00ff', '2027-01-01 10:00:00.000001+02'),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, 'ç', -7.25, DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59', -2.5, FALSE, ARRAY['z'], -1,
        'NaN', '\\x', '0001-01-01');
INSERT INTO stock VALUES (1, 'p', 3), (1, 'q', 4), (1, 'q', 4), (3, NULL, 9), (NULL, 'p', 2);
CREATE MATERIALIZED VIEW every AS SELECT * FROM item;
CREATE MATERIALIZED VIEW worth AS SELECT i.name, i.tags, SUM(s.n) AS n, MAX(i.price) AS price FROM item i
    JOIN stock s ON s.item = i.id WHERE s.n > 2 GROUP BY i.name, i.tags;
CREATE MATERIALIZED VIEW copies AS SELECT place, n FROM stock;
"""
STATEMENTS = (
    "UPDATE item SET price = price * 2, seen = seen + INTERVAL '1 second' WHERE id < 3",
    "INSERT INTO item (id, name, rate, tags) VALUES (4, 'd', 0.3, ARRAY[]::VARCHAR[])",
    "UPDATE item SET rate = rate * 1.1",
    r"UPDATE item SET data = data || '\x01', moment = moment + INTERVAL '1 second' WHERE real = 0.1::REAL",
    "UPDATE item SET real = real * 2",
    "BEGIN; DELETE FROM stock WHERE place = 'q'; INSERT INTO stock VALUES (4, 'r', 7); COMMIT",
    "UPDATE stock SET n = n + 1 WHERE place IS NULL",
    "DELETE FROM item WHERE ok OR made < DATE '1970-01-01'",
    "INSERT INTO stock SELECT id, name, 5 FROM item",
    "DELETE FROM stock",
)


def test_the_answers_are_the_same_elsewhere(db: tm.Database) -> None:
    db.execute(SETUP)
    views = ("every", "worth", "copies")
    sources = {view: ViewSource(db, view) for view in views}
    local = {view: LocalView(source.first()) for view, source in sources.items()}
    held = {view: ViewHolder(source.state()) for view, source in sources.items()}
    kinds = set()
    for sql in STATEMENTS:
        db.execute(sql)
        for view, source in sources.items():
            expected = bag_of(db.query(f"SELECT * FROM {view}"))
            local[view].apply(source.changes(local[view].tidemark))
            kinds.add(held[view].apply(source.refresh(held[view].tidemark)))
            assert bag_of(local[view].content) == expected, (view, sql)
            assert bag_of(held[view].content) == expected, (view, sql)
    assert kinds >= {"nothing", "statements", "changes"}
    for view in views:
        local[view].close()
        held[view].close()
