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
