-- Why the model stopped, and the prompt that it was sent.
ALTER TABLE traces ADD COLUMN finish_reason  TEXT; -- stop, tool_calls, length, content_filter
ALTER TABLE traces ADD COLUMN prompt         TEXT; -- its key
ALTER TABLE traces ADD COLUMN prompt_version TEXT;

-- Answers that were cut are few, and are looked for.
CREATE INDEX traces_cut ON traces (finish_reason, id) WHERE finish_reason NOT IN ('stop', 'tool_calls');

ALTER TABLE stats ADD COLUMN finish_stop           INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stats ADD COLUMN finish_tool_calls     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stats ADD COLUMN finish_length         INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stats ADD COLUMN finish_content_filter INTEGER NOT NULL DEFAULT 0;

-- Calls that were interrupted had the status of an answer that never came.
UPDATE traces INDEXED BY traces_interrupted SET status = NULL WHERE state = 'interrupted';
UPDATE traces INDEXED BY traces_started SET status = NULL WHERE state = 'started';
