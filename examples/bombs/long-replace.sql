-- The same for what is to be replaced.
SELECT length(replace(hex(zeroblob(2000000)), hex(zeroblob(100000)) || 'x', 'y'));
