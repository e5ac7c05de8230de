-- The folder for temporary files is one for the whole process: the next document's files would go there.
PRAGMA temp_store_directory = '/tmp';
