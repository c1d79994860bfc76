-- The answers to requests with an idempotency key. A row whose time has passed
-- is replaced by the next one of its key, or deleted.
CREATE TABLE replies (
	seq       INTEGER PRIMARY KEY,
	workspace TEXT    NOT NULL,
	route     TEXT    NOT NULL,                -- metrics, endpoints
	key       TEXT    NOT NULL,                -- as the caller made it up
	digest    BLOB    NOT NULL,                -- SHA-256 of the request
	time_ms   INTEGER NOT NULL,                -- Unix time
	trace_id  BLOB,
	status    INTEGER NOT NULL,                -- of the HTTP answer
	code      TEXT,                            -- of the error
	body      TEXT    NOT NULL,                -- JSON
	UNIQUE (workspace, route, key)
);

CREATE INDEX replies_time ON replies (time_ms);
