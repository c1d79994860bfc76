-- The comments of columns are those of the SQLite store, whose rows these are.
-- Durations are in milliseconds here, with microseconds as their fraction, as
-- they are wherever traces leave Cadenza. What is absent is null.
CREATE TABLE traces (
	id                uuid             PRIMARY KEY, -- begins with the time
	time              timestamptz      NOT NULL,
	workspace         text             NOT NULL,
	kind              text             NOT NULL,    -- prompt, endpoint, remoteconfig, metrics
	key               text             NOT NULL,
	state             text             NOT NULL,    -- started, ended, interrupted
	api_key           text,                         -- its name
	version           text,
	revision          text,
	matched_row       text,
	variant           text,
	provider          text,
	model             text,
	status            integer,                      -- of the HTTP answer
	code              text,                         -- of the error
	latency_ms        double precision,
	first_token_ms    double precision,
	prompt_tokens     bigint,
	completion_tokens bigint,
	total_tokens      bigint,
	cost              double precision,             -- US dollars
	cached            boolean,                      -- true: a cache answered
	attempts          jsonb,                        -- array
	notes             jsonb,                        -- array
	metadata          jsonb,                        -- object, and so the next two
	context           jsonb,
	variables         jsonb,
	messages          jsonb,
	response          text,
	tool_calls        jsonb                         -- array
);

CREATE INDEX traces_key ON traces (workspace, kind, key, time);
CREATE INDEX traces_time ON traces (time);

-- An erasure by conversation finds the traces that name it themselves.
CREATE INDEX traces_conversation ON traces USING hash ((metadata ->> 'conversation_id'))
	WHERE metadata ->> 'conversation_id' IS NOT NULL;

-- Metrics may come before their trace's row, or without one: no foreign key.
CREATE TABLE metrics (
	id                uuid             PRIMARY KEY, -- random
	trace_id          uuid             NOT NULL,
	time              timestamptz      NOT NULL,
	workspace         text             NOT NULL,
	api_key           text,
	score             double precision,
	latency_ms        double precision,
	roundtrip_time_ms double precision,
	llm_response      text,
	chain_id          text,
	conversation_id   text,
	prompt_tokens     bigint,
	completion_tokens bigint,
	total_tokens      bigint,
	metadata          jsonb                         -- object
);

-- What callers make up may be of any length, which only a hash index bears.
CREATE INDEX metrics_trace ON metrics (trace_id);
CREATE INDEX metrics_time ON metrics (time);
CREATE INDEX metrics_conversation ON metrics USING hash (conversation_id) WHERE conversation_id IS NOT NULL;
CREATE INDEX metrics_chain ON metrics USING hash (chain_id) WHERE chain_id IS NOT NULL;

CREATE TABLE versions (
	workspace  text        NOT NULL,
	kind       text        NOT NULL,
	key        text        NOT NULL,
	version    text        NOT NULL,
	first_seen timestamptz NOT NULL,
	content    bytea       NOT NULL,
	PRIMARY KEY (workspace, kind, key, version)
);

-- How far each store's rows have got: written with them, so that a database
-- that lost its latest commits says so. Of a workspace several sinks may write
-- here, each at its own pace.
CREATE TABLE positions (
	store_id  uuid        NOT NULL,
	workspace text        NOT NULL,
	sink      text        NOT NULL, -- its name
	traces    bigint      NOT NULL,
	metrics   bigint      NOT NULL,
	versions  bigint      NOT NULL,
	erasures  bigint      NOT NULL,
	updated   timestamptz NOT NULL,
	PRIMARY KEY (store_id, workspace, sink)
);
