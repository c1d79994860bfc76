-- What was refused before a call, by hour. A row beyond the bound of an hour shares the
-- subject '*': callers choose subjects.
CREATE TABLE refusals (
	workspace  TEXT    NOT NULL,
	hour       INTEGER NOT NULL,               -- its start, Unix time
	api_key    TEXT    NOT NULL,               -- name
	route      TEXT    NOT NULL,
	status     INTEGER NOT NULL,
	code       TEXT    NOT NULL,
	limit_name TEXT    NOT NULL,               -- empty: no limit refused
	subject    TEXT    NOT NULL,               -- of the limit
	key        TEXT    NOT NULL,               -- of the definition that was asked for; empty: of none that there is
	count      INTEGER NOT NULL,
	last_ms    INTEGER NOT NULL,               -- Unix time
	examples   TEXT    NOT NULL,               -- JSON array of {time, message, param}, the newest first
	PRIMARY KEY (workspace, hour, api_key, route, status, code, limit_name, subject, key)
) WITHOUT ROWID;
