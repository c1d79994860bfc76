ALTER TABLE traces
	ADD COLUMN decision_id      uuid,
	ADD COLUMN endpoint_variant text,
	ADD COLUMN endpoint_row     text,
	ADD COLUMN reason           text,  -- match, split, default, no_context
	ADD COLUMN arm              text,
	ADD COLUMN splits           jsonb, -- array: those that were consulted
	ADD COLUMN read_versions    jsonb, -- object: of configurations that were read
	ADD COLUMN inputs           jsonb; -- object: of the fields that were read

CREATE INDEX traces_decision ON traces (decision_id) WHERE decision_id IS NOT NULL;

-- A report is on a trace, or on all traces of a decision.
ALTER TABLE metrics
	ALTER COLUMN trace_id DROP NOT NULL,
	ADD COLUMN decision_id  uuid,
	ADD COLUMN named_values jsonb;     -- object of numbers

CREATE INDEX metrics_decision ON metrics (decision_id) WHERE decision_id IS NOT NULL;
