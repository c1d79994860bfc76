-- What units need beside schema.sql. A file of the same format that was made without it gets
-- it when a gateway opens it.

-- Reports on units beside those on traces: they are rows of metrics, which are delivered,
-- deleted and counted as such, and have a trace id of their own.
ALTER TABLE metrics ADD COLUMN unit_field TEXT;     -- of the data model
ALTER TABLE metrics ADD COLUMN unit TEXT;           -- the keyed hash that splits have
ALTER TABLE metrics ADD COLUMN happened_ms INTEGER; -- Unix time, as its caller gave it
ALTER TABLE metrics ADD COLUMN event_id TEXT;       -- as its caller made it up
CREATE UNIQUE INDEX metrics_event ON metrics (workspace, event_id) WHERE event_id IS NOT NULL;
CREATE INDEX metrics_unit ON metrics (workspace, unit_field, unit, happened_ms) WHERE unit IS NOT NULL;

CREATE VIEW unit_reports AS
SELECT seq, id, workspace, api_key, unit_field AS field, unit, happened_ms AS time_ms, time_ms AS received_ms, event_id, named_values
FROM metrics WHERE unit IS NOT NULL;

-- Erasures by a unit.
ALTER TABLE erasures ADD COLUMN unit_field TEXT;
ALTER TABLE erasures ADD COLUMN unit TEXT;       -- the keyed hash
ALTER TABLE erasures ADD COLUMN unit_value TEXT; -- JSON; NULL: traces have only the hash

-- Answers that were counted on traces, as commits brought them. A background task adds them
-- to stats and exposures, and deletes the row in the same transaction.
CREATE TABLE counted (
	seq       INTEGER PRIMARY KEY AUTOINCREMENT,
	workspace TEXT    NOT NULL,
	counts    BLOB    NOT NULL                 -- of each the trace's id, the minute since 1970 and the answers: 16, 4 and 4 bytes
);

-- The traces that stand for further answers. A row's seq grows with each write of it.
CREATE TABLE exposures (
	seq       INTEGER PRIMARY KEY AUTOINCREMENT,
	trace_id  BLOB    NOT NULL UNIQUE,
	workspace TEXT    NOT NULL,
	answers   INTEGER NOT NULL,                -- beside the trace's own
	last_ms   INTEGER NOT NULL                 -- Unix time of the minute of the last
);
CREATE TRIGGER traces_exposure_deleted AFTER DELETE ON traces BEGIN
	DELETE FROM exposures WHERE trace_id = OLD.id;
END;
ALTER TABLE cursors ADD COLUMN exposures INTEGER NOT NULL DEFAULT 0;
