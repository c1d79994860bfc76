-- A number that was given out once is never given again, even when the greatest
-- row is deleted: whoever reads on from a number that it has seen misses nothing.
-- That is what AUTOINCREMENT is for, and it takes making the tables anew.
CREATE TABLE traces_new (
	seq               INTEGER PRIMARY KEY AUTOINCREMENT,
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
	response          TEXT,
	tool_calls        TEXT                     -- JSON array
);
INSERT INTO traces_new SELECT * FROM traces;
DROP TABLE traces;
ALTER TABLE traces_new RENAME TO traces;
CREATE INDEX traces_started ON traces (id) WHERE state = 'started';

CREATE TABLE metrics_new (
	seq               INTEGER PRIMARY KEY AUTOINCREMENT,
	id                BLOB    NOT NULL,        -- 16 random bytes: the same in every copy of the row
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
INSERT INTO metrics_new
	SELECT seq, randomblob(16), trace_id, time_ms, workspace, api_key, score, latency_ms, roundtrip_time_ms,
		llm_response, chain_id, conversation_id, prompt_tokens, completion_tokens, total_tokens, metadata
	FROM metrics;
DROP TABLE metrics;
ALTER TABLE metrics_new RENAME TO metrics;
CREATE INDEX metrics_trace_id ON metrics (trace_id);
CREATE INDEX metrics_conversation_id ON metrics (conversation_id, trace_id) WHERE conversation_id IS NOT NULL;
CREATE INDEX metrics_chain_id ON metrics (chain_id, trace_id) WHERE chain_id IS NOT NULL;

-- What was to be forgotten, for the sinks that have copies. The marks are the
-- greatest seq of each table when the erasure began; it concerns the rows up to
-- them.
CREATE TABLE erasures (
	seq             INTEGER PRIMARY KEY AUTOINCREMENT,
	time_ms         INTEGER NOT NULL,          -- Unix time
	workspace       TEXT    NOT NULL,
	conversation_id TEXT,                      -- either this
	metadata_name   TEXT,                      -- or a top-level member of the metadata
	metadata_value  TEXT,                      -- JSON, no object or array
	traces          INTEGER NOT NULL,          -- mark
	metrics         INTEGER NOT NULL           -- mark
);

-- How far a follower of the tables has come: the greatest seq of each that it is
-- done with.
CREATE TABLE cursors (
	sink     TEXT    PRIMARY KEY,
	traces   INTEGER NOT NULL DEFAULT 0,
	metrics  INTEGER NOT NULL DEFAULT 0,
	versions INTEGER NOT NULL DEFAULT 0,
	erasures INTEGER NOT NULL DEFAULT 0
);
