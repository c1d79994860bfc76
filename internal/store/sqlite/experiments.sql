-- What experiments need beside schema.sql. A file of the same format that was made without it
-- gets it when a gateway opens it. Nothing here is content or metadata of traces. It outlives
-- their retention, until 30 days after the end of the experiment.

CREATE TABLE IF NOT EXISTS experiments (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	workspace  TEXT    NOT NULL,
	name       TEXT    NOT NULL,
	gone_ms    INTEGER,                        -- since when no definition has it, Unix time as all here; NULL: one does
	readout    INTEGER NOT NULL DEFAULT 0,     -- its number; another begins anew
	answers    TEXT    NOT NULL DEFAULT '',    -- hash of what the arms answer with; empty: not known yet
	since_ms   INTEGER NOT NULL DEFAULT 0,     -- when the readout began
	what       TEXT    NOT NULL DEFAULT '',    -- what is counted, JSON; empty: nothing yet
	end_ms     INTEGER NOT NULL DEFAULT 0,     -- by which it is counted
	traces     INTEGER NOT NULL DEFAULT 0,     -- the greatest seq that is counted, and so the next
	metrics    INTEGER NOT NULL DEFAULT 0,
	from_metrics INTEGER NOT NULL DEFAULT 0,   -- those up to it are older than what is counted
	to_traces  INTEGER NOT NULL DEFAULT 0,     -- of the step that is being written
	to_metrics INTEGER NOT NULL DEFAULT 0,
	step       INTEGER NOT NULL DEFAULT 0,     -- its number
	writes     INTEGER NOT NULL DEFAULT 0,     -- grows with each transaction: who finds another number reads again
	counted_ms INTEGER NOT NULL DEFAULT 0,     -- time of the last trace that is counted
	unitless   INTEGER NOT NULL DEFAULT 0,     -- answers whose unit was not recorded
	answered_before INTEGER NOT NULL DEFAULT 0, -- 1: the split answered in the 14 days before the start, so that no unit has a past
	UNIQUE (workspace, name)
);

-- The plan of an experiment, from a time on.
CREATE TABLE IF NOT EXISTS experiment_plans (
	experiment INTEGER NOT NULL,
	since_ms   INTEGER NOT NULL,
	plan       TEXT    NOT NULL,               -- JSON
	PRIMARY KEY (experiment, since_ms)
) WITHOUT ROWID;

-- When readouts began anew.
CREATE TABLE IF NOT EXISTS experiment_readouts (
	experiment INTEGER NOT NULL,
	since_ms   INTEGER NOT NULL,
	answers    TEXT    NOT NULL,
	PRIMARY KEY (experiment, since_ms)
) WITHOUT ROWID;

-- The numbers that are counted, and their thresholds.
CREATE TABLE IF NOT EXISTS experiment_metrics (
	experiment INTEGER NOT NULL,
	metric     INTEGER NOT NULL,               -- its number, from 0
	what       TEXT    NOT NULL,               -- JSON
	over_us    INTEGER,                        -- of latency and first_token; NULL: not known
	PRIMARY KEY (experiment, metric)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS experiment_strata (
	experiment INTEGER NOT NULL,
	readout    INTEGER NOT NULL,
	stratum    INTEGER NOT NULL,               -- its number, from 1
	about      TEXT    NOT NULL,               -- the shares to two digits, JSON
	begin_ms   INTEGER NOT NULL,
	units      INTEGER NOT NULL,               -- that were first seen in it
	shares     TEXT    NOT NULL,               -- the mean of theirs, JSON
	PRIMARY KEY (experiment, readout, stratum)
) WITHOUT ROWID;

-- The units. A row of an earlier readout has nothing but the past.
CREATE TABLE IF NOT EXISTS experiment_units (
	experiment INTEGER NOT NULL,
	unit       TEXT    NOT NULL,               -- the keyed hash that splits have
	readout    INTEGER NOT NULL,               -- 0: it was not seen since the start
	arm        TEXT    NOT NULL,               -- of its first exposure
	stratum    INTEGER NOT NULL,
	first_ms   INTEGER NOT NULL,               -- of its first exposure
	until_ms   INTEGER NOT NULL,               -- the end of its attribution; 0: that of the experiment
	moved      INTEGER NOT NULL,               -- 1: another arm answered it later, before the end of its attribution
	fell_back  INTEGER NOT NULL,               -- 1: a fallback answered it at least once
	numbers    TEXT    NOT NULL,               -- JSON array, of each metric: count, sum, how many above 0; count and sum before the start
	step       INTEGER NOT NULL,               -- in which it was written last
	PRIMARY KEY (experiment, unit)
) WITHOUT ROWID;

-- The sums of the units, of which none has moved.
CREATE TABLE IF NOT EXISTS experiment_arms (
	experiment INTEGER NOT NULL,
	readout    INTEGER NOT NULL,
	stratum    INTEGER NOT NULL,
	arm        TEXT    NOT NULL,
	units      INTEGER NOT NULL,
	fell_back  INTEGER NOT NULL,               -- those of them that a fallback answered
	moved      INTEGER NOT NULL,               -- units that are in no sum
	PRIMARY KEY (experiment, readout, stratum, arm)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS experiment_sums (
	experiment INTEGER NOT NULL,
	readout    INTEGER NOT NULL,
	stratum    INTEGER NOT NULL,
	arm        TEXT    NOT NULL,
	metric     INTEGER NOT NULL,
	fell_back  INTEGER NOT NULL,               -- 1: of units that a fallback answered
	reported   INTEGER NOT NULL,               -- units with a number
	units      INTEGER NOT NULL,
	positive   INTEGER NOT NULL,               -- those whose y is not 0
	partial    INTEGER NOT NULL,               -- those whose y is not d
	y          REAL    NOT NULL,               -- a unit's number, or numerator
	yy         REAL    NOT NULL,
	d          REAL    NOT NULL,               -- its denominator
	dd         REAL    NOT NULL,
	yd         REAL    NOT NULL,
	h          INTEGER NOT NULL,               -- units with a past
	c          REAL    NOT NULL,               -- their number before the start
	cc         REAL    NOT NULL,
	yc         REAL    NOT NULL,
	yh         REAL    NOT NULL,
	PRIMARY KEY (experiment, readout, stratum, arm, metric, fell_back)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS experiment_verdicts (
	experiment INTEGER NOT NULL,
	since_ms   INTEGER NOT NULL,               -- of the readout
	metric     TEXT    NOT NULL,               -- its name
	arm        TEXT    NOT NULL,
	state      TEXT    NOT NULL,
	time_ms    INTEGER NOT NULL,
	units      INTEGER NOT NULL,
	PRIMARY KEY (experiment, since_ms, metric, arm, state, time_ms)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS experiment_days (
	experiment INTEGER NOT NULL,
	since_ms   INTEGER NOT NULL,               -- of the readout
	day        INTEGER NOT NULL,               -- since 1970, UTC
	metric     TEXT    NOT NULL,               -- its name
	arm        TEXT    NOT NULL,
	place      INTEGER NOT NULL,               -- within the day
	units      INTEGER NOT NULL,
	difference REAL,                           -- NULL: it may not be said yet
	low        REAL,
	high       REAL,
	PRIMARY KEY (experiment, since_ms, day, metric, arm)
) WITHOUT ROWID;
