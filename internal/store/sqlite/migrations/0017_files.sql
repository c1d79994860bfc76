-- Files of sets of definitions that were served, each content once.
CREATE TABLE files (
	hash    TEXT PRIMARY KEY,                  -- SHA-256 of the content, in hexadecimal
	content BLOB NOT NULL
);

-- The sets, each with what files are in it. A set that is served again gets a new
-- seq, so the greatest of a workspace and directory is the one that is served. A
-- start whose directory is invalid begins with it.
DROP TABLE revisions;
CREATE TABLE revisions (
	seq           INTEGER PRIMARY KEY AUTOINCREMENT,
	workspace     TEXT    NOT NULL,
	directory     TEXT    NOT NULL,            -- absolute path
	revision      TEXT    NOT NULL,
	first_seen_ms INTEGER NOT NULL,            -- Unix time, and so the next one
	served_ms     INTEGER NOT NULL,            -- when it began to be served, the last time
	files         TEXT    NOT NULL,            -- JSON array of [path, hash], see files
	UNIQUE (workspace, directory, revision)
);
