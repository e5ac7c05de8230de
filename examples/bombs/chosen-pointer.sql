-- A tokenizer is a table of functions, and fts3_tokenizer takes its address from whoever calls it.
SELECT fts3_tokenizer('e', x'4141414141414141');
CREATE VIRTUAL TABLE f USING fts3(x, tokenize = e);
