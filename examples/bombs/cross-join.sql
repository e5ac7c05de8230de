-- A cross join of eight tables of ten rows, with itself once more: 10^16 rows are counted, none is kept. It holds next
-- to no memory, so only time can end it.
WITH RECURSIVE digits (d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM digits WHERE d < 9)
SELECT count(*)
FROM digits a, digits b, digits c, digits d, digits e, digits f, digits g, digits h,
     digits i, digits j, digits k, digits l, digits m, digits n, digits o, digits p;
