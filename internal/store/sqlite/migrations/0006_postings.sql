-- The ids of the traces of each key and of each API key, so that they are found
-- without reading those between. A background task writes those of the traces up
-- to its cursor, of many traces at once: an index would cost each trace a
-- multiple of it.
CREATE TABLE postings (
	workspace TEXT    NOT NULL,
	field     INTEGER NOT NULL,                -- what value is: 0, a key; 1, the name of an API key
	value     TEXT    NOT NULL,
	last      BLOB    NOT NULL,                -- of ids
	written   INTEGER NOT NULL,                -- where the cursor stood afterwards
	first     BLOB    NOT NULL,                -- of ids
	ids       BLOB    NOT NULL,                -- in order, all of one hour
	PRIMARY KEY (workspace, field, value, last, written)
) WITHOUT ROWID;

INSERT INTO cursors (sink) VALUES ('postings');
