-- A recursive query that never ends, and that is stored row by row.
CREATE TABLE rows (n INTEGER, text TEXT);
INSERT INTO rows
    WITH RECURSIVE counter (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter)
    SELECT n, 'row number ' || n FROM counter;
