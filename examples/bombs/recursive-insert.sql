-- A recursive query that never ends, stored row by row.
CREATE TABLE rows (text TEXT);
INSERT INTO rows
    WITH RECURSIVE counter (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter)
    SELECT printf('%01000d', n) FROM counter;
