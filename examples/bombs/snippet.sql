-- The best piece of one long text, in which each word is found.
CREATE VIRTUAL TABLE f USING fts5(x);
INSERT INTO f VALUES (replace(hex(zeroblob(1000000)), '00', 'a b '));
SELECT snippet(f, 0, '[', ']', '...', 64) FROM f WHERE f MATCH 'a b';
SELECT snippet(f, 0, '[', ']', '...', 64) FROM f WHERE f MATCH 'a NOT c';
