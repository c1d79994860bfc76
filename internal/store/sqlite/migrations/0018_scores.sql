-- The worst answers are found without reading the others; of one score, the newest
-- come first.
CREATE INDEX metrics_score ON metrics (workspace, score, trace_id DESC) WHERE score IS NOT NULL;
