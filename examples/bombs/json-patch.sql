-- Each of 40,000 keys is compared with each of 40,000 others.
WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 40000),
j (t) AS (SELECT json_group_object('key' || n, n) FROM c)
SELECT length(json_patch(t, replace(t, 'key', 'other'))) FROM j;
