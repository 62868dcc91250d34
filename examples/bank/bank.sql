-- A bank: transfers, rules that act on them in different couplings, and an assertion that none may violate.
-- Run it with: tidemark run examples/bank/bank.sql --engine duckdb

CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR, balance INT);
CREATE TABLE notice (kind VARCHAR, id INT, balance INT);
CREATE MATERIALIZED VIEW wealth AS SELECT owner, SUM(balance) AS total FROM account GROUP BY owner;
CREATE MATERIALIZED VIEW notices AS SELECT kind, COUNT(*) AS n FROM notice GROUP BY kind;

-- Sees each statement: also a balance that is mended before the end.
CREATE RULE at_once WHEN SELECT id, balance FROM account WHERE balance < 0
    DO INSERT INTO notice SELECT 'at once', id, balance FROM condition WITH (coupling = 'immediate');
-- Sees the net effect of a transaction.
CREATE RULE at_the_end WHEN SELECT id, balance FROM account WHERE balance < 0
    DO INSERT INTO notice SELECT 'at the end', id, balance FROM condition WITH (priority = 1);
-- Acts in a transaction of its own.
CREATE RULE apart WHEN SELECT id, balance FROM account WHERE balance < 0
    DO INSERT INTO notice SELECT 'apart', id, balance FROM condition WITH (action_coupling = 'detached', priority = 2);
CREATE ASSERTION solvent CHECK (NOT EXISTS (SELECT owner FROM wealth WHERE total < -100));
ACTIVATE RULE at_once;
ACTIVATE RULE at_the_end;
ACTIVATE RULE apart;

-- Ann and Bob open accounts
INSERT INTO account VALUES (1, 'ann', 100), (2, 'ann', 50), (3, 'bob', 0);

-- A transfer that overdraws account 1 for a moment: only the immediate rule sees it
BEGIN;
UPDATE account SET balance = balance - 150 WHERE id = 1;
UPDATE account SET balance = balance + 150 WHERE id = 3;
UPDATE account SET balance = balance - 50 WHERE id = 2;
UPDATE account SET balance = balance + 50 WHERE id = 1;
COMMIT;

-- A transfer that overdraws account 1: all three see it
UPDATE account SET balance = balance - 50 WHERE id = 1;

SELECT * FROM notice ORDER BY kind, balance;
SHOW RULES;
