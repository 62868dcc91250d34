-- A market: trades come all the time, and nobody wants to hear of each one.
-- Run it with: tidemark run examples/market/market.sql --engine duckdb

CREATE TABLE share (symbol VARCHAR PRIMARY KEY, sector VARCHAR, price INT);
CREATE TABLE trade (id INT PRIMARY KEY, symbol VARCHAR, quantity INT);

-- Answers when prices, taken together, have moved by more than 20 since the last answer.
CREATE CONTINUAL QUERY moved AS SELECT symbol, price FROM share
    TRIGGER WHEN ABS(SUM(new.price) - SUM(old.price)) > 20;
-- Answers at every third changed row of the volumes, until it has answered twice.
CREATE CONTINUAL QUERY volumes AS
    SELECT s.sector, COUNT(*) AS trades, SUM(t.quantity) AS quantity
    FROM trade t JOIN share s ON s.symbol = t.symbol GROUP BY s.sector
    TRIGGER ON CHANGE OF 3 ROWS IN trade UNTIL 2 RESULTS;
-- True as of the last time that somebody asked.
CREATE SNAPSHOT close AS SELECT sector, SUM(price) AS value FROM share GROUP BY sector REFRESH ON DEMAND;
-- What happened more than 100 versions ago is forgotten, unless one of these still needs it.
ALTER LOG SET (versions = 100);

-- Shares are listed: prices rise from nothing, so the first query answers
INSERT INTO share VALUES ('ACME', 'tools', 50), ('BOLT', 'tools', 30), ('CORN', 'food', 20);

-- Two trades: not yet enough for an answer
INSERT INTO trade VALUES (1, 'ACME', 10), (2, 'CORN', 5);

-- A third trade: the volumes are told
INSERT INTO trade VALUES (3, 'BOLT', 7);

-- Prices move against each other: together they stand still
UPDATE share SET price = CASE symbol WHEN 'ACME' THEN 70 WHEN 'BOLT' THEN 12 ELSE price END;

-- Together with what moved before it is enough: the net change since the last answer is told
UPDATE share SET price = price + 10;

-- The snapshot still shows no shares
SELECT * FROM close;
REFRESH close;
SELECT * FROM close ORDER BY sector;

-- What was true when the first trades had been made
SELECT symbol, price FROM share AS OF VERSION 7 ORDER BY symbol;

SHOW CONTINUAL QUERIES;
SHOW CONSUMERS;
