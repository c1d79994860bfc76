ALTER TABLE traces
	ADD COLUMN finish_reason  text, -- stop, tool_calls, length, content_filter
	ADD COLUMN prompt         text, -- its key: the prompt that an endpoint's model was sent
	ADD COLUMN prompt_version text;
