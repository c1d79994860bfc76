-- A row's seq grows with each write of it. AUTOINCREMENT never reuses one, even after the
-- greatest row is deleted, so a reader that goes on from its greatest seq misses nothing.
-- https://www.sqlite.org/autoinc.html
CREATE TABLE traces (
	seq               INTEGER PRIMARY KEY AUTOINCREMENT,
	id                BLOB    NOT NULL UNIQUE, -- 16 bytes; begins with the time
	time_ms           INTEGER NOT NULL,        -- Unix time
	workspace         TEXT    NOT NULL,
	kind              TEXT    NOT NULL,        -- prompt, endpoint, remoteconfig, metrics
	key               TEXT    NOT NULL,
	state             TEXT    NOT NULL,        -- ended, interrupted
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
	tool_calls        TEXT,                    -- JSON array: what an endpoint's model asked its caller to call
	finish_reason     TEXT,                    -- stop, tool_calls, length, content_filter
	prompt            TEXT,                    -- key of the prompt that was sent
	prompt_version    TEXT,
	decision_id       BLOB,
	shared            INTEGER,                 -- what it shows of its decision: 1, notes and metadata; 2, context and variables too
	endpoint_variant  TEXT,                    -- of the endpoint's own table
	endpoint_row      TEXT,
	reason            TEXT,                    -- match, split, default, no_context
	arm               TEXT,
	splits            TEXT,                    -- JSON array: those that were consulted
	read_versions     TEXT,                    -- JSON object: of configurations that were read
	inputs            TEXT,                    -- JSON object: of the fields that were read
	seal              TEXT                     -- what a change of the row is noticed by: the name of the trace key, a MAC under it and hashes of the content
);

-- Indexes of rare traces, so that a search reads no others. Answers without an upstream
-- call are usually in none of them, and cost nothing more.
CREATE INDEX traces_failed ON traces (id) WHERE code IS NOT NULL OR state = 'interrupted' OR status >= 400;
CREATE INDEX traces_interrupted ON traces (id) WHERE state = 'interrupted';
CREATE INDEX traces_provider ON traces (provider, id) WHERE provider IS NOT NULL;
-- Cut answers are few.
CREATE INDEX traces_cut ON traces (finish_reason, id) WHERE finish_reason NOT IN ('stop', 'tool_calls');

-- The members that the answers of one request share. A trace with its own metadata,
-- context and variables has no row here.
CREATE TABLE decisions (
	seq       INTEGER PRIMARY KEY,
	id        BLOB    NOT NULL UNIQUE,         -- 16 bytes; begins with the time
	time_ms   INTEGER NOT NULL,                -- Unix time
	workspace TEXT    NOT NULL,
	notes     TEXT,                            -- JSON array; they come before a trace's own
	metadata  TEXT,                            -- JSON object, and so the next two
	context   TEXT,
	variables TEXT
);

-- A decision is deleted with the last trace that shows a part of it, and its content with
-- the last that shows content, whatever deletes the traces. Replacing a trace deletes
-- neither: SQLite runs no trigger for it. https://www.sqlite.org/lang_conflict.html
CREATE INDEX traces_decision ON traces (decision_id, shared) WHERE shared IS NOT NULL;
CREATE TRIGGER traces_decision_deleted AFTER DELETE ON traces WHEN OLD.shared IS NOT NULL BEGIN
	DELETE FROM decisions WHERE id = OLD.decision_id AND NOT EXISTS (
		SELECT 1 FROM traces INDEXED BY traces_decision WHERE decision_id = OLD.decision_id AND shared IS NOT NULL
	);
	UPDATE decisions SET context = NULL, variables = NULL WHERE OLD.shared = 2 AND id = OLD.decision_id AND NOT EXISTS (
		SELECT 1 FROM traces INDEXED BY traces_decision WHERE decision_id = OLD.decision_id AND shared = 2 AND shared IS NOT NULL
	);
END;

-- Metrics may come before their trace's row, or without one: no foreign key. A report on
-- all traces of a decision also has the decision's id as its trace_id, so that it is found
-- and deleted like a report on a trace.
CREATE TABLE metrics (
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
	metadata          TEXT,                    -- JSON object
	decision_id       BLOB,
	named_values      TEXT                     -- JSON object of numbers
);
CREATE INDEX metrics_trace_id ON metrics (trace_id);
CREATE INDEX metrics_conversation_id ON metrics (conversation_id, trace_id) WHERE conversation_id IS NOT NULL;
CREATE INDEX metrics_chain_id ON metrics (chain_id, trace_id) WHERE chain_id IS NOT NULL;
CREATE INDEX metrics_decision ON metrics (decision_id) WHERE decision_id = trace_id;
-- The worst answers are found without reading the others; of one score, the newest
-- come first.
CREATE INDEX metrics_score ON metrics (workspace, score, trace_id DESC) WHERE score IS NOT NULL;

CREATE TABLE versions (
	seq           INTEGER PRIMARY KEY,
	workspace     TEXT    NOT NULL,
	kind          TEXT    NOT NULL,
	key           TEXT    NOT NULL,
	version       TEXT    NOT NULL,
	ordinal       INTEGER NOT NULL,            -- 1 for the key's first version
	first_seen_ms INTEGER NOT NULL,
	content       BLOB    NOT NULL,
	UNIQUE (workspace, kind, key, version)
);

-- Files of sets of definitions that were served, each content once.
CREATE TABLE files (
	hash    TEXT PRIMARY KEY,                  -- SHA-256 of the content, in hexadecimal
	content BLOB NOT NULL
);

-- The sets, each with the list of its files. A set that is served again gets a new seq, so
-- the greatest of a workspace and directory is the served one. A gateway that starts with an
-- invalid directory serves it.
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

CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value BLOB NOT NULL
);

-- The replies to requests with an idempotency key. An expired row is replaced by the next
-- one of its key, or deleted.
CREATE TABLE replies (
	seq         INTEGER PRIMARY KEY,
	workspace   TEXT    NOT NULL,
	route       TEXT    NOT NULL,              -- metrics, endpoints
	key         TEXT    NOT NULL,              -- as the caller made it up
	digest      BLOB    NOT NULL,              -- SHA-256 of the request
	time_ms     INTEGER NOT NULL,              -- Unix time
	trace_id    BLOB,
	status      INTEGER NOT NULL,              -- of the HTTP answer
	code        TEXT,                          -- of the error
	body        TEXT    NOT NULL,              -- JSON
	api_key     TEXT    NOT NULL,              -- its name
	size        INTEGER NOT NULL,              -- in bytes, about
	decision_id BLOB,                          -- of the first answer, which a repetition names
	UNIQUE (workspace, route, key)
);
CREATE INDEX replies_time ON replies (time_ms);
CREATE INDEX replies_api_key ON replies (workspace, api_key, time_ms);

-- The sums of replies, so that no reader adds up all of them. Triggers update the sums,
-- because more than one process deletes replies.
CREATE TABLE reply_totals (
	workspace TEXT    NOT NULL,
	api_key   TEXT    NOT NULL,
	replies   INTEGER NOT NULL,
	bytes     INTEGER NOT NULL,
	PRIMARY KEY (workspace, api_key)
) WITHOUT ROWID;
CREATE TRIGGER replies_inserted AFTER INSERT ON replies BEGIN
	INSERT INTO reply_totals VALUES (new.workspace, new.api_key, 1, new.size)
		ON CONFLICT DO UPDATE SET replies = replies + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER replies_deleted AFTER DELETE ON replies BEGIN
	UPDATE reply_totals SET replies = replies - 1, bytes = bytes - old.size
		WHERE workspace = old.workspace AND api_key = old.api_key;
END;
CREATE TRIGGER replies_updated AFTER UPDATE OF api_key, size ON replies BEGIN
	UPDATE reply_totals SET replies = replies - 1, bytes = bytes - old.size
		WHERE workspace = old.workspace AND api_key = old.api_key;
	INSERT INTO reply_totals VALUES (new.workspace, new.api_key, 1, new.size)
		ON CONFLICT DO UPDATE SET replies = replies + 1, bytes = bytes + excluded.bytes;
END;

-- Requests that were refused before a call, by hour. Rows beyond the bound of an hour share
-- the subject '*': callers choose subjects.
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

-- Erasures, for the sinks that have copies. The marks are the greatest seq of each table
-- when the erasure began; it concerns the rows up to them.
CREATE TABLE erasures (
	seq             INTEGER PRIMARY KEY AUTOINCREMENT,
	time_ms         INTEGER NOT NULL,          -- Unix time
	workspace       TEXT    NOT NULL,
	conversation_id TEXT,                      -- either this
	metadata_name   TEXT,                      -- or a top-level member of the metadata
	metadata_value  TEXT,                      -- JSON, no object or array
	decision_id     BLOB,                      -- or the traces of this decision
	reported_on     BLOB,                      -- ids of what reports chose, 16 bytes each
	traces          INTEGER NOT NULL,          -- mark
	metrics         INTEGER NOT NULL           -- mark
);

-- The position of each follower of the tables: the greatest seq that it has taken.
CREATE TABLE cursors (
	sink     TEXT    PRIMARY KEY,
	traces   INTEGER NOT NULL DEFAULT 0,
	metrics  INTEGER NOT NULL DEFAULT 0,
	versions INTEGER NOT NULL DEFAULT 0,
	erasures INTEGER NOT NULL DEFAULT 0
);

-- The series of statistics. The variants of a configuration are the names of the rows that
-- matched.
CREATE TABLE stats_series (
	id        INTEGER PRIMARY KEY,
	workspace TEXT    NOT NULL,
	kind      TEXT    NOT NULL,
	key       TEXT    NOT NULL,                -- empty: of reports whose trace is not known
	variant   TEXT    NOT NULL,
	version   TEXT    NOT NULL,
	arm       TEXT    NOT NULL,
	UNIQUE (workspace, kind, key, variant, version, arm)
);

-- A background task counts the ended traces and the metrics up to its cursor, each once, by
-- the hour and by the day (UTC), and those of the last days by the minute.
CREATE TABLE stats (
	series                INTEGER NOT NULL,
	hours                 INTEGER NOT NULL,    -- 1, or 24; 0: a minute of the workspace, whose series has no names
	start                 INTEGER NOT NULL,    -- in hours since 1970; of a minute, in minutes
	traces                INTEGER NOT NULL,
	errors                INTEGER NOT NULL,
	cached                INTEGER NOT NULL,
	finish_stop           INTEGER NOT NULL,
	finish_tool_calls     INTEGER NOT NULL,
	finish_length         INTEGER NOT NULL,
	finish_content_filter INTEGER NOT NULL,
	prompt_tokens         INTEGER NOT NULL,
	completion_tokens     INTEGER NOT NULL,
	total_tokens          INTEGER NOT NULL,
	cost                  REAL    NOT NULL,    -- US dollars
	reports               INTEGER NOT NULL,
	scores                INTEGER NOT NULL,
	score_sum             REAL    NOT NULL,
	latency               BLOB,                -- histogram, and so the next two
	first_token           BLOB,
	reported_latency      BLOB,
	named_values          BLOB,                -- count, mean, deviation and histogram of each
	PRIMARY KEY (series, hours, start)
) WITHOUT ROWID;
INSERT INTO cursors (sink) VALUES ('stats');

-- Tables terms_N of FTS5, one for each period, find traces by their names and metadata. The
-- first trace of a period makes its table: see terms.go.
