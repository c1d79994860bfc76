-- The messages of long conversations, which callers send again with each turn. They are cut
-- into texts, and each text is stored once for all traces of a workspace whose messages are
-- the same up to its end. A trace refers to its last text; its own column messages has
-- what comes after that. A file of the same format that was made without these gets them.
CREATE TABLE IF NOT EXISTS texts (
	id     INTEGER PRIMARY KEY,
	hash   BLOB    NOT NULL UNIQUE,            -- SHA-256 of the hash of the text before it (of the workspace's name for the first) and the text
	parent INTEGER,                            -- the text before it
	text   TEXT    NOT NULL
);
CREATE INDEX IF NOT EXISTS texts_parent ON texts (parent) WHERE parent IS NOT NULL;
CREATE TABLE IF NOT EXISTS histories (
	trace_id BLOB    PRIMARY KEY,
	last     INTEGER NOT NULL,                 -- of its texts
	size     INTEGER NOT NULL                  -- of all its texts, in bytes
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS histories_last ON histories (last);

-- A text is deleted with the last trace that has it, whatever deletes the trace. Replacing a
-- trace runs no trigger: see texts.go.
CREATE TRIGGER IF NOT EXISTS traces_history_deleted AFTER DELETE ON traces BEGIN
	DELETE FROM histories WHERE trace_id = OLD.id;
END;
-- What somebody writes into messages by hand, NULL too, are all messages.
CREATE TRIGGER IF NOT EXISTS traces_messages_changed AFTER UPDATE OF messages ON traces BEGIN
	DELETE FROM histories WHERE trace_id = OLD.id;
END;
CREATE TRIGGER IF NOT EXISTS histories_deleted AFTER DELETE ON histories BEGIN
	DELETE FROM texts WHERE id IN (
		WITH RECURSIVE unused (id, parent) AS (
			SELECT id, parent FROM texts
			WHERE id = OLD.last AND NOT EXISTS (SELECT 1 FROM texts AS t WHERE t.parent = OLD.last)
				AND NOT EXISTS (SELECT 1 FROM histories WHERE last = OLD.last)
			UNION ALL
			SELECT t.id, t.parent FROM unused CROSS JOIN texts AS t ON t.id = unused.parent
			WHERE NOT EXISTS (SELECT 1 FROM texts AS other WHERE other.parent = t.id AND other.id <> unused.id)
				AND NOT EXISTS (SELECT 1 FROM histories WHERE last = t.id)
		)
		SELECT id FROM unused
	);
END;

-- The messages of each trace, whole. A text has a greater id than those before it.
CREATE VIEW IF NOT EXISTS whole_messages AS
SELECT id AS trace_id, CASE WHEN NOT EXISTS (SELECT 1 FROM histories WHERE trace_id = traces.id) THEN messages ELSE (
	SELECT group_concat(text, '') FROM (
		SELECT text FROM texts WHERE id IN (
			WITH RECURSIVE chain (id) AS (
				SELECT last FROM histories WHERE trace_id = traces.id
				UNION ALL
				SELECT parent FROM chain CROSS JOIN texts USING (id) WHERE parent IS NOT NULL
			)
			SELECT id FROM chain
		) ORDER BY id
	)
) || coalesce(messages, '') END AS messages
FROM traces;
