-- A factory's inventory, watched: which items must be ordered, from whom, and how many pieces.
-- After Risch and Sköld, "Monitoring complex rule conditions" (AMOS).

CREATE TABLE item (
    id           INT PRIMARY KEY,
    name         VARCHAR NOT NULL,
    quantity     INT NOT NULL CHECK (quantity >= 0),
    max_stock    INT NOT NULL,
    min_stock    INT NOT NULL,
    consume_freq INT NOT NULL            -- pieces used per day
);

CREATE TABLE supplier (
    id   INT PRIMARY KEY,
    name VARCHAR NOT NULL
);

CREATE TABLE supplies (
    supplier_id   INT,
    item_id       INT,
    delivery_time INT NOT NULL,          -- days
    PRIMARY KEY (supplier_id, item_id)
);

-- Below this quantity an item would run short before new pieces arrive.
CREATE MATERIALIZED VIEW threshold AS
SELECT i.id AS item_id, s.supplier_id, i.consume_freq * s.delivery_time + i.min_stock AS threshold
FROM item AS i
JOIN supplies AS s ON s.item_id = i.id;

CREATE MATERIALIZED VIEW low_stock AS
SELECT i.id, i.name, i.quantity, t.threshold, t.supplier_id, i.max_stock - i.quantity AS pieces
FROM item AS i
JOIN threshold AS t ON t.item_id = i.id
WHERE i.quantity < t.threshold;

-- A view above a view above a view, with a group for each supplier.
CREATE MATERIALIZED VIEW orders_due AS
SELECT s.name AS supplier, COUNT(*) AS items, SUM(l.pieces) AS pieces
FROM low_stock AS l
JOIN supplier AS s ON s.id = l.supplier_id
GROUP BY s.name;

-- The stock is entered: the thresholds are 140 and 290, and no item is below its own.
BEGIN;
INSERT INTO supplier VALUES (1, 'sup1'), (2, 'sup2');
INSERT INTO item VALUES
    (1, 'item1', 1000, 5000, 100, 20),
    (2, 'item2',  310, 7500, 200, 30),
    (3, 'item3',  400,  900,  50, 10);
INSERT INTO supplies VALUES (1, 1, 2), (2, 2, 3), (1, 3, 2);
COMMIT;

-- item1 is used up but for 150 pieces: still above its threshold, so no view changes.
UPDATE item SET quantity = 150 WHERE id = 1;

-- item1 falls below its threshold: it enters low_stock, and sup1 is owed an order.
UPDATE item SET quantity = 130 WHERE id = 1;

-- min_stock goes from 100 to 150 and back within one transaction: the net effect is nothing.
BEGIN;
UPDATE item SET min_stock = 150 WHERE id = 1;
UPDATE item SET min_stock = 100 WHERE id = 1;
COMMIT;

-- item2 is used and its delivery takes a day longer: both sides of the join change at once.
BEGIN;
UPDATE item SET quantity = quantity - 10 WHERE id = 2;
UPDATE supplies SET delivery_time = 4 WHERE supplier_id = 2 AND item_id = 2;
COMMIT;

-- item3 falls below its threshold too: the row of sup1 is replaced by one for two items.
UPDATE item SET quantity = 60 WHERE id = 3;

-- item1 is restocked: it leaves low_stock, and the order of sup1 shrinks again.
UPDATE item SET quantity = max_stock WHERE id = 1;

-- item2 is given up: its group disappears.
BEGIN;
DELETE FROM supplies WHERE item_id = 2;
DELETE FROM item WHERE id = 2;
COMMIT;

-- What is to be ordered now:
SELECT * FROM orders_due ORDER BY supplier;

-- Why:
SELECT name, quantity, threshold, pieces FROM low_stock ORDER BY name;

-- Every view against its definition, evaluated anew.
AUDIT threshold;
AUDIT low_stock;
AUDIT orders_due;
