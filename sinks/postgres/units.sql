-- What units need beside schema.sql. Tables that were made without it get it when a sink
-- opens them.

-- Reports on units are rows of metrics too: see the SQLite store. The id of one with an
-- event id is made of the workspace and it, so that all gateways store the event once.
ALTER TABLE metrics ADD COLUMN unit_field text;      -- of the data model
ALTER TABLE metrics ADD COLUMN unit text;            -- the keyed hash that splits have
ALTER TABLE metrics ADD COLUMN happened timestamptz; -- as its caller gave it
ALTER TABLE metrics ADD COLUMN event_id text;        -- as its caller made it up
CREATE INDEX metrics_unit ON metrics (workspace, unit_field, unit, happened) WHERE unit IS NOT NULL;
CREATE VIEW unit_reports AS
SELECT id, workspace, api_key, unit_field AS field, unit, happened AS time, time AS received, event_id, named_values
FROM metrics WHERE unit IS NOT NULL;

-- The answers that a trace stands for, if others were counted on it.
ALTER TABLE traces ADD COLUMN answers integer;
ALTER TABLE positions ADD COLUMN exposures bigint NOT NULL DEFAULT 0;
