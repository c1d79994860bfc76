-- What the answers of one request have in common, once for all of them. A trace
-- with its own metadata, context and variables has no row here.
CREATE TABLE decisions (
	seq       INTEGER PRIMARY KEY,
	id        BLOB    NOT NULL UNIQUE,         -- 16 bytes; begins with the time
	time_ms   INTEGER NOT NULL,                -- Unix time
	workspace TEXT    NOT NULL,
	notes     TEXT,                            -- JSON array; they come before a trace's own
	metadata  TEXT,                            -- JSON object, and so the next two
	context   TEXT,
	variables TEXT
);

ALTER TABLE traces ADD COLUMN decision_id BLOB;
ALTER TABLE traces ADD COLUMN shared INTEGER;  -- what it shows of its decision: 1, notes and metadata; 2, context and variables too

-- A decision goes with the last trace that shows something of it, and its content
-- with the last that shows that, whatever deletes them. Who replaces a trace
-- deletes none: SQLite runs no trigger for it.
CREATE INDEX traces_decision ON traces (decision_id, shared) WHERE shared IS NOT NULL;
CREATE TRIGGER traces_decision_deleted AFTER DELETE ON traces WHEN OLD.shared IS NOT NULL BEGIN
	DELETE FROM decisions WHERE id = OLD.decision_id AND NOT EXISTS (
		SELECT 1 FROM traces INDEXED BY traces_decision WHERE decision_id = OLD.decision_id AND shared IS NOT NULL
	);
	UPDATE decisions SET context = NULL, variables = NULL WHERE OLD.shared = 2 AND id = OLD.decision_id AND NOT EXISTS (
		SELECT 1 FROM traces INDEXED BY traces_decision WHERE decision_id = OLD.decision_id AND shared = 2 AND shared IS NOT NULL
	);
END;
