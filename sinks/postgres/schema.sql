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
	tool_calls        jsonb,                        -- array
	finish_reason     text,                         -- stop, tool_calls, length, content_filter
	prompt            text,                         -- its key: the prompt that an endpoint's model was sent
	prompt_version    text,
	decision_id       uuid,
	endpoint_variant  text,
	endpoint_row      text,
	reason            text,                         -- match, split, default, no_context
	arm               text,
	splits            jsonb,                        -- array: those that were consulted
	read_versions     jsonb,                        -- object: of configurations that were read
	inputs            jsonb,                        -- object: of the fields that were read
	seal              text                          -- of the row in the gateway's store, which the gateway verifies
);

CREATE INDEX traces_key ON traces (workspace, kind, key, time);
CREATE INDEX traces_time ON traces (time);
CREATE INDEX traces_decision ON traces (decision_id) WHERE decision_id IS NOT NULL;

-- An erasure by conversation finds the traces that name it themselves.
CREATE INDEX traces_conversation ON traces USING hash ((metadata ->> 'conversation_id'))
	WHERE metadata ->> 'conversation_id' IS NOT NULL;

-- A report is on a trace, or on all traces of a decision. It may come before their
-- rows, or without them: no foreign key.
CREATE TABLE metrics (
	id                uuid             PRIMARY KEY, -- random
	trace_id          uuid,
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
	metadata          jsonb,                        -- object
	decision_id       uuid,
	named_values      jsonb                         -- object of numbers
);

-- What callers make up may be of any length, which only a hash index bears.
CREATE INDEX metrics_trace ON metrics (trace_id);
CREATE INDEX metrics_decision ON metrics (decision_id) WHERE decision_id IS NOT NULL;
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

-- What gateways may use together of a ceiling in a window of time. Each takes some
-- at a time, uses that by itself, and returns what it does not use.
CREATE TABLE limit_windows (
	workspace    text        NOT NULL,
	limit_name   text        NOT NULL,
	subject      text        NOT NULL, -- a key's name, an endpoint, a value of the metadata, or empty
	measure      text        NOT NULL, -- requests, tokens, money; with /1mo: of months
	window_start timestamptz NOT NULL,
	window_end   timestamptz NOT NULL,
	taken        bigint      NOT NULL, -- by gateways, to use; of money, nanodollars
	used         bigint      NOT NULL, -- of it, as far as gateways have reported
	PRIMARY KEY (workspace, limit_name, subject, measure, window_start, window_end)
);

CREATE INDEX limit_windows_end ON limit_windows (window_end);

-- The last exchange of each process that shares limits. One whose answer was lost is
-- sent again: it is booked once, and answered by what it was granted.
CREATE TABLE limit_exchanges (
	workspace text        NOT NULL,
	process   text        NOT NULL, -- random, another one after each start
	number    bigint      NOT NULL, -- of the exchange; rises
	time      timestamptz NOT NULL,
	granted   bigint[]    NOT NULL, -- to each claim of it, in their order
	PRIMARY KEY (workspace, process)
);

-- The format of these tables: one row.
CREATE TABLE schema_version (version integer NOT NULL);
