-- What an endpoint's model asked its caller to call.
ALTER TABLE traces ADD COLUMN tool_calls TEXT; -- JSON array
