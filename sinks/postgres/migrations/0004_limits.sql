-- What gateways may use together of a ceiling in a window of time. Each takes some
-- at a time, uses that by itself, and returns what it does not use.
CREATE TABLE limit_windows (
	workspace    text        NOT NULL,
	limit_name   text        NOT NULL,
	subject      text        NOT NULL, -- a key's name, an endpoint, a value of the metadata, or empty
	measure      text        NOT NULL, -- requests, tokens, money; with /1mo: of months
	window_start timestamptz NOT NULL,
	window_end   timestamptz NOT NULL,
	taken        bigint      NOT NULL, -- by gateways, to use; of money, nanodollars
	used         bigint      NOT NULL, -- of it, as far as gateways have reported
	PRIMARY KEY (workspace, limit_name, subject, measure, window_start, window_end)
);

CREATE INDEX limit_windows_end ON limit_windows (window_end);
