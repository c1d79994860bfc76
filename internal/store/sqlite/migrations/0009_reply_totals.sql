-- Replies have a share of the file, of which each API key may take a part: what
-- a reply takes, and whose it is.
ALTER TABLE replies ADD COLUMN api_key TEXT NOT NULL DEFAULT ''; -- its name
ALTER TABLE replies ADD COLUMN size INTEGER NOT NULL DEFAULT 0;  -- in bytes, about
UPDATE replies SET size = 256 + 2 * length(key) + length(body);
CREATE INDEX replies_api_key ON replies (workspace, api_key, time_ms);

-- The sums of replies, so that nobody has to read them all. Triggers keep them,
-- because more than one process deletes replies.
CREATE TABLE reply_totals (
	workspace TEXT    NOT NULL,
	api_key   TEXT    NOT NULL,
	replies   INTEGER NOT NULL,
	bytes     INTEGER NOT NULL,
	PRIMARY KEY (workspace, api_key)
) WITHOUT ROWID;
INSERT INTO reply_totals SELECT workspace, api_key, count(*), sum(size) FROM replies GROUP BY 1, 2;

CREATE TRIGGER replies_inserted AFTER INSERT ON replies BEGIN
	INSERT INTO reply_totals VALUES (new.workspace, new.api_key, 1, new.size)
		ON CONFLICT DO UPDATE SET replies = replies + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER replies_deleted AFTER DELETE ON replies BEGIN
	UPDATE reply_totals SET replies = replies - 1, bytes = bytes - old.size
		WHERE workspace = old.workspace AND api_key = old.api_key;
END;
CREATE TRIGGER replies_updated AFTER UPDATE OF api_key, size ON replies BEGIN
	UPDATE reply_totals SET replies = replies - 1, bytes = bytes - old.size
		WHERE workspace = old.workspace AND api_key = old.api_key;
	INSERT INTO reply_totals VALUES (new.workspace, new.api_key, 1, new.size)
		ON CONFLICT DO UPDATE SET replies = replies + 1, bytes = bytes + excluded.bytes;
END;
