-- The start records of upstream calls are in a file of their own from here on. Those
-- that an earlier version left have no end. They get a new seq, so that sinks take
-- them.
INSERT OR REPLACE INTO traces (
	id, time_ms, workspace, kind, key, state, api_key, version, revision, matched_row, variant, provider, model,
	status, code, latency_us, first_token_us, prompt_tokens, completion_tokens, total_tokens, cost, cached, attempts,
	notes, metadata, context, variables, messages, response, tool_calls, finish_reason, prompt, prompt_version,
	decision_id, shared, endpoint_variant, endpoint_row, reason, arm, splits, read_versions, inputs
) SELECT
	id, time_ms, workspace, kind, key, 'interrupted', api_key, version, revision, matched_row, variant, provider, model,
	status, code, latency_us, first_token_us, prompt_tokens, completion_tokens, total_tokens, cost, cached, attempts,
	notes, metadata, context, variables, messages, response, tool_calls, finish_reason, prompt, prompt_version,
	decision_id, shared, endpoint_variant, endpoint_row, reason, arm, splits, read_versions, inputs
FROM traces INDEXED BY traces_started WHERE state = 'started';
DROP INDEX traces_started;
