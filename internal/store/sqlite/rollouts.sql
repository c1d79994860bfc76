-- What guarded rollouts need beside schema.sql and experiments.sql. A file of the same format
-- that was made without it gets it when a gateway opens it.

-- The rows of rollouts, or a copy of those that a fleet shares. They outlive the retention, until
-- 30 days after no definition has the rollout any more.
CREATE TABLE IF NOT EXISTS rollout_rows (
	workspace TEXT    NOT NULL,
	rollout   TEXT    NOT NULL,                -- its name, as in remoteconfigs/button/colours
	number    INTEGER NOT NULL,                -- from 1
	time_ms   INTEGER NOT NULL,                -- Unix time, as all here
	kind      TEXT    NOT NULL,
	share     INTEGER NOT NULL,                -- how many of 100,000 buckets get the new answer
	edition   TEXT    NOT NULL,                -- hash of the guard, and of what it guards
	made_by   TEXT    NOT NULL,                -- a person or a gateway; empty: not known
	why       TEXT    NOT NULL,
	evidence  TEXT,                            -- JSON; NULL: none
	gone_ms   INTEGER,                         -- since when no definition has the rollout; NULL: one does
	PRIMARY KEY (workspace, rollout, number)
) WITHOUT ROWID;

-- The units of experiments that a fleet has yet to be given as they are now. A unit that is
-- written again comes last.
CREATE TABLE IF NOT EXISTS experiment_outbox (
	seq        INTEGER PRIMARY KEY AUTOINCREMENT,
	experiment INTEGER NOT NULL,
	unit       TEXT    NOT NULL,
	UNIQUE (experiment, unit)
);
