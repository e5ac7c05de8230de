-- What is sorted would go to a file on disk, where no limit of memory counts it.
PRAGMA temp_store = FILE;
WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT randomblob(1000) FROM c ORDER BY 1;
