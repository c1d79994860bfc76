-- The sets of definitions that were served, each with what is in it. A set that is
-- served again gets a new seq, so the greatest of a workspace and directory is the
-- one that is served. A start whose directory is invalid begins with it.
CREATE TABLE revisions (
	seq           INTEGER PRIMARY KEY AUTOINCREMENT,
	workspace     TEXT    NOT NULL,
	directory     TEXT    NOT NULL,            -- absolute path
	revision      TEXT    NOT NULL,
	first_seen_ms INTEGER NOT NULL,            -- Unix time, and so the next one
	served_ms     INTEGER NOT NULL,            -- when it began to be served, the last time
	versions      TEXT    NOT NULL,            -- JSON array of [kind, key, version], see versions
	context       TEXT    NOT NULL,            -- the data model: context.yaml
	archive       BLOB,                        -- its files, .tar.gz; NULL where another set of the directory was served later
	UNIQUE (workspace, directory, revision)
);
