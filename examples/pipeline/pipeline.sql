-- What the pipeline defines. It can run before every pull: what is there already is left as it is.
CREATE OR REPLACE SOURCE shop TYPE delta OPTIONS (path 'shop');
CREATE OR REPLACE TABLE orders FROM SOURCE shop RELATION 'orders' KEY (id);
CREATE OR REPLACE TABLE customers FROM SOURCE shop RELATION 'customers' KEY (id);

CREATE OR REPLACE MATERIALIZED VIEW revenue AS
    SELECT c.country, COUNT(*) AS orders, SUM(o.amount) AS amount
    FROM orders o JOIN customers c ON c.id = o.customer
    GROUP BY c.country;

CREATE OR REPLACE MATERIALIZED VIEW without_orders AS
    SELECT c.id, c.name FROM customers c WHERE NOT EXISTS (SELECT * FROM orders o WHERE o.customer = c.id);
