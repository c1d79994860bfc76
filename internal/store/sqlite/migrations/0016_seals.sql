-- What a change of the row is noticed by: the name of the trace key, a MAC under it and
-- hashes of the content.
ALTER TABLE traces ADD COLUMN seal TEXT;
