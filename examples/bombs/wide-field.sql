-- Nine hundred million characters, written one by one, of which none is kept.
SELECT length(printf('%.*c', 900000000, 'x'));
