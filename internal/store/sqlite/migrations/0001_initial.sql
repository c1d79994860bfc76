-- A row's seq grows with each write of it, so that reading on from the greatest
-- seq read misses nothing: a record that replaces its start gets a new one.
CREATE TABLE traces (
	seq               INTEGER PRIMARY KEY,
	id                BLOB    NOT NULL UNIQUE, -- 16 bytes; begins with the time
	time_ms           INTEGER NOT NULL,        -- Unix time
	workspace         TEXT    NOT NULL,
	kind              TEXT    NOT NULL,        -- prompt, endpoint, remoteconfig, metrics
	key               TEXT    NOT NULL,
	state             TEXT    NOT NULL,        -- started, ended, interrupted
	api_key           TEXT,                    -- its name
	version           TEXT,
	revision          TEXT,
	matched_row       TEXT,
	variant           TEXT,
	provider          TEXT,
	model             TEXT,
	status            INTEGER,                 -- of the HTTP answer
	code              TEXT,                    -- of the error
	latency_us        INTEGER,
	first_token_us    INTEGER,
	prompt_tokens     INTEGER,
	completion_tokens INTEGER,
	total_tokens      INTEGER,
	cost              REAL,                    -- US dollars
	cached            INTEGER,                 -- 1: a cache answered
	attempts          TEXT,                    -- JSON array
	notes             TEXT,                    -- JSON array
	metadata          TEXT,                    -- JSON object, and so the next two
	context           TEXT,
	variables         TEXT,
	messages          TEXT,                    -- JSON
	response          TEXT
);

-- What a crash left behind is found without reading the table.
CREATE INDEX traces_started ON traces (id) WHERE state = 'started';

-- Metrics may come before their trace's row, or without one: no foreign key.
CREATE TABLE metrics (
	seq               INTEGER PRIMARY KEY,
	trace_id          BLOB    NOT NULL,
	time_ms           INTEGER NOT NULL,
	workspace         TEXT    NOT NULL,
	api_key           TEXT,
	score             REAL,
	latency_ms        REAL,
	roundtrip_time_ms REAL,
	llm_response      TEXT,
	chain_id          TEXT,
	conversation_id   TEXT,
	prompt_tokens     INTEGER,
	completion_tokens INTEGER,
	total_tokens      INTEGER,
	metadata          TEXT                     -- JSON object
);

CREATE INDEX metrics_trace_id ON metrics (trace_id);

CREATE TABLE versions (
	seq        INTEGER PRIMARY KEY,
	workspace  TEXT    NOT NULL,
	kind       TEXT    NOT NULL,
	key        TEXT    NOT NULL,
	version    TEXT    NOT NULL,
	ordinal    INTEGER NOT NULL,               -- 1 for the key's first version
	first_seen_ms INTEGER NOT NULL,
	content    BLOB    NOT NULL,
	UNIQUE (workspace, kind, key, version)
);

CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value BLOB NOT NULL
);
