-- What the console needs beside schema.sql. A file of the same format that was made without
-- it gets it when a gateway opens it, so an upgrade keeps what is stored.

-- The dearest and the slowest are found without reading the others. Calls of models are in
-- both, evaluations in neither.
CREATE INDEX IF NOT EXISTS traces_cost ON traces (workspace, cost, id) WHERE cost > 0;
CREATE INDEX IF NOT EXISTS traces_latency ON traces (workspace, latency_us, id) WHERE latency_us >= 10000;

-- Labels that visitors of the console gave.
CREATE INDEX IF NOT EXISTS metrics_label ON metrics (CASE WHEN json_valid(metadata) THEN metadata ->> '$.label' END, trace_id)
	WHERE api_key >= 'console:' AND api_key < 'console;';

-- The largest shares of limits that subjects used, by hour: of each limit the fullest ones.
CREATE TABLE IF NOT EXISTS limit_peaks (
	workspace  TEXT    NOT NULL,
	hour       INTEGER NOT NULL,               -- its start, Unix time
	limit_name TEXT    NOT NULL,
	subject    TEXT    NOT NULL,
	percent    INTEGER NOT NULL,
	measure    TEXT    NOT NULL,
	ceiling    TEXT    NOT NULL,               -- as it was configured then
	used       REAL    NOT NULL,               -- requests, tokens or US dollars
	PRIMARY KEY (workspace, hour, limit_name, subject)
) WITHOUT ROWID;

-- What visitors of the console did.
CREATE TABLE IF NOT EXISTS audit (
	seq       INTEGER PRIMARY KEY AUTOINCREMENT,
	time_ms   INTEGER NOT NULL,                -- Unix time
	workspace TEXT    NOT NULL,
	visitor   TEXT    NOT NULL,                -- name of the API key, or sso:USER; empty: none
	role      TEXT    NOT NULL,
	address   TEXT    NOT NULL,                -- of the client
	action    TEXT    NOT NULL,
	subject   TEXT    NOT NULL,                -- what it was done to
	before    TEXT    NOT NULL,
	after     TEXT    NOT NULL
);
CREATE INDEX IF NOT EXISTS audit_time ON audit (time_ms);
CREATE INDEX IF NOT EXISTS audit_refused ON audit (seq) WHERE action = 'sign_in_refused';

-- When API keys were used last.
CREATE TABLE IF NOT EXISTS key_uses (
	workspace TEXT    NOT NULL,
	api_key   TEXT    NOT NULL,                -- its name
	minute    INTEGER NOT NULL,                -- of the last use, Unix time
	PRIMARY KEY (workspace, api_key)
) WITHOUT ROWID;
