-- Why an answer was chosen, and what the decision rests on. decision_id is of all
-- traces from here on; before, only of those that share a row of decisions.
ALTER TABLE traces ADD COLUMN endpoint_variant TEXT; -- of the endpoint's own table
ALTER TABLE traces ADD COLUMN endpoint_row     TEXT;
ALTER TABLE traces ADD COLUMN reason           TEXT; -- match, split, default, no_context
ALTER TABLE traces ADD COLUMN arm              TEXT;
ALTER TABLE traces ADD COLUMN splits           TEXT; -- JSON array: those that were consulted
ALTER TABLE traces ADD COLUMN read_versions    TEXT; -- JSON object: of configurations that were read
ALTER TABLE traces ADD COLUMN inputs           TEXT; -- JSON object: of the fields that were read

-- A report on all traces of a decision has the decision's id as its trace_id too: so
-- it is found and deleted as those on a trace are.
ALTER TABLE metrics ADD COLUMN decision_id  BLOB;
ALTER TABLE metrics ADD COLUMN named_values TEXT;    -- JSON object of numbers
CREATE INDEX metrics_decision ON metrics (decision_id) WHERE decision_id = trace_id;

-- A repetition of a request names the decision of the first one's answer.
ALTER TABLE replies ADD COLUMN decision_id BLOB;

-- Statistics are kept by version and arm too. What was counted before has neither.
CREATE TABLE stats_series_new (
	id        INTEGER PRIMARY KEY,
	workspace TEXT    NOT NULL,
	kind      TEXT    NOT NULL,
	key       TEXT    NOT NULL,                -- empty: of reports whose trace is not known
	variant   TEXT    NOT NULL,
	version   TEXT    NOT NULL,
	arm       TEXT    NOT NULL,
	UNIQUE (workspace, kind, key, variant, version, arm)
);
INSERT INTO stats_series_new SELECT id, workspace, kind, key, variant, '', '' FROM stats_series;
DROP TABLE stats_series;
ALTER TABLE stats_series_new RENAME TO stats_series;
ALTER TABLE stats ADD COLUMN named_values BLOB;      -- count, mean, deviation and histogram of each

ALTER TABLE erasures ADD COLUMN decision_id BLOB;    -- or the traces of this decision
ALTER TABLE erasures ADD COLUMN reported_on BLOB;    -- ids of what reports chose, 16 bytes each
