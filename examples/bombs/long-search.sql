-- A text of 100,001 characters is looked for at each of 4,000,000 places, inside one call of a function.
SELECT instr(hex(zeroblob(2000000)), hex(zeroblob(100000)) || 'x');
