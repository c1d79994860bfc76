-- The histograms of durations have the least and the greatest duration. Those of before
-- do not, and are not read.
UPDATE stats SET latency = NULL, first_token = NULL, reported_latency = NULL;
