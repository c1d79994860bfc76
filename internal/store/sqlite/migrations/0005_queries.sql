-- What makes traces found without reading those between. Answers that made no
-- upstream call are in none of these indexes, and so cost nothing more.
CREATE INDEX traces_failed ON traces (id) WHERE code IS NOT NULL OR state = 'interrupted' OR status >= 400;
CREATE INDEX traces_interrupted ON traces (id) WHERE state = 'interrupted';
CREATE INDEX traces_provider ON traces (provider, id) WHERE provider IS NOT NULL;

-- What the statistics are kept of. A key without variants has the names of the
-- rows that matched.
CREATE TABLE stats_series (
	id        INTEGER PRIMARY KEY,
	workspace TEXT    NOT NULL,
	kind      TEXT    NOT NULL,
	key       TEXT    NOT NULL,                -- empty: of reports whose trace is not known
	variant   TEXT    NOT NULL,
	UNIQUE (workspace, kind, key, variant)
);

-- A background task counts the traces that ended and the metrics up to its
-- cursor, each once, by the hour and by the day (UTC).
CREATE TABLE stats (
	series            INTEGER NOT NULL,
	hours             INTEGER NOT NULL,        -- 1, or 24
	start             INTEGER NOT NULL,        -- in hours since 1970
	traces            INTEGER NOT NULL,
	errors            INTEGER NOT NULL,
	cached            INTEGER NOT NULL,
	prompt_tokens     INTEGER NOT NULL,
	completion_tokens INTEGER NOT NULL,
	total_tokens      INTEGER NOT NULL,
	cost              REAL    NOT NULL,        -- US dollars
	reports           INTEGER NOT NULL,
	scores            INTEGER NOT NULL,
	score_sum         REAL    NOT NULL,
	latency           BLOB,                    -- histogram, and so the next two
	first_token       BLOB,
	reported_latency  BLOB,
	PRIMARY KEY (series, hours, start)
) WITHOUT ROWID;

INSERT INTO cursors (sink) VALUES ('stats');
