-- Nine hundred million characters, of which none is kept; SQLite before 3.46 writes each of them one by one.
SELECT length(printf('%.*c', 900000000, 'x')) +
       length(printf('%.*c', 900000001, 'x')) +
       length(printf('%.*c', 900000002, 'x')) +
       length(printf('%.*c', 900000003, 'x')) +
       length(printf('%.*c', 900000004, 'x')) +
       length(printf('%.*c', 900000005, 'x')) +
       length(printf('%.*c', 900000006, 'x')) +
       length(printf('%.*c', 900000007, 'x')) +
       length(printf('%.*c', 900000008, 'x')) +
       length(printf('%.*c', 900000009, 'x')) +
       length(printf('%.*c', 900000010, 'x')) +
       length(printf('%.*c', 900000011, 'x')) +
       length(printf('%.*c', 900000012, 'x')) +
       length(printf('%.*c', 900000013, 'x')) +
       length(printf('%.*c', 900000014, 'x')) +
       length(printf('%.*c', 900000015, 'x')) +
       length(printf('%.*c', 900000016, 'x')) +
       length(printf('%.*c', 900000017, 'x')) +
       length(printf('%.*c', 900000018, 'x')) +
       length(printf('%.*c', 900000019, 'x')) +
       length(printf('%.*c', 900000020, 'x')) +
       length(printf('%.*c', 900000021, 'x')) +
       length(printf('%.*c', 900000022, 'x')) +
       length(printf('%.*c', 900000023, 'x'));
