-- What rollouts need beside schema.sql. Tables that were made without it get it when a sink
-- opens them.

-- What became of guarded rollouts. Each step, hold and return is a row, and the gateways
-- answer by the last one.
CREATE TABLE rollout_rows (
	workspace text        NOT NULL,
	rollout   text        NOT NULL, -- remoteconfigs/button/colours
	number    bigint      NOT NULL, -- from 1
	time      timestamptz NOT NULL,
	kind      text        NOT NULL, -- start, step, hold, back, resume, finish
	share     integer     NOT NULL, -- of 100,000: how many of the units' buckets have the new answer
	edition   text        NOT NULL, -- the hash of what the guard says, and of the new answer
	by        text        NOT NULL, -- a person or a gateway
	why       text        NOT NULL,
	evidence  jsonb,                -- object: what was known then
	PRIMARY KEY (workspace, rollout, number)
);

-- Units that guards compare, as each gateway has counted them.
CREATE TABLE rollout_units (
	workspace text               NOT NULL,
	rollout   text               NOT NULL,
	since     timestamptz        NOT NULL, -- of the row that began the count
	unit      text               NOT NULL, -- the keyed hash that splits have
	node      text               NOT NULL, -- the gateway's store
	arm       text               NOT NULL, -- of the unit's first exposure
	first     timestamptz        NOT NULL, -- that exposure
	moved     boolean            NOT NULL, -- another arm answered it later
	numbers   double precision[] NOT NULL, -- of each metric: how many, their sum, how many are above 0
	PRIMARY KEY (workspace, rollout, since, unit, node)
);
