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
