-- What finds traces by the names and the metadata that they have, without reading
-- those between. The traces of 16,384 seqs are a block, and what a block has of each
-- 128th of all values is a piece, which is found by its place:
--
--	2^32 * bucket + block
--
-- A background task writes a block at once, when it has passed all of it. It starts
-- over, and takes the lists of earlier versions away a little at a time.
CREATE TABLE posting_blocks (
	block INTEGER PRIMARY KEY,
	first BLOB    NOT NULL,                    -- of the ids of its traces
	last  BLOB    NOT NULL,
	torn  INTEGER NOT NULL,                    -- 1: of some traces the pieces do not have all names
	odd   INTEGER NOT NULL,                    -- 1: of some they do not have all metadata
	stale INTEGER NOT NULL                     -- erasures that deleted traces, whose entries are still there
);
CREATE TABLE posting_pieces (
	place   INTEGER PRIMARY KEY,
	entries BLOB    NOT NULL
);
UPDATE cursors SET traces = 0, erasures = 0 WHERE sink = 'postings';
