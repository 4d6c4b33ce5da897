-- The sums of usage_rows_sums and the buckets of the median and of the 95th percentile of latencies, with its arguments, from
-- one read of rows: for filters that no roll-up answers.
CREATE OR REPLACE FUNCTION usage_rows_report(tenants uuid[], dimension integer, group_by text, filter text[], wanted text[],
  grains text[], opens timestamptz[], closes timestamptz[], cuts timestamptz[])
RETURNS TABLE (key text, place integer, cost bigint, requests bigint, errors bigint, input_tokens bigint,
  output_tokens bigint, cached_input_tokens bigint, saved bigint, p50 integer, p95 integer)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off SET enable_memoize = off SET work_mem = '32MB' AS $$
#variable_conflict use_column
DECLARE
  rows_from timestamptz := (SELECT min(g.opens) FROM unnest(grains, opens) AS g(grain, opens) WHERE g.grain IN ('r', 's'));
  rows_to timestamptz := (SELECT max(g.closes) FROM unnest(grains, closes) AS g(grain, closes) WHERE g.grain IN ('r', 's'));
BEGIN
  RETURN QUERY
  WITH read AS MATERIALIZED (
    SELECT u.key, u.place, u.bucket, sum(u.cost)::bigint AS cost, sum(u.requests) AS requests, sum(u.errors) AS errors,
      sum(u.input_tokens)::bigint AS input_tokens, sum(u.output_tokens)::bigint AS output_tokens,
      sum(u.cached_input_tokens)::bigint AS cached_input_tokens, sum(u.saved)::bigint AS saved,
      count(u.bucket)::double precision AS calls
    FROM usage_rows_between(tenants, usage_rows_report.dimension, group_by, filter, wanted, grains, opens, closes, cuts,
        rows_from, rows_to) u
    GROUP BY 1, 2, 3
  ), counted AS (
    SELECT r.*, sum(r.calls) OVER (PARTITION BY r.key, r.place ORDER BY r.bucket) AS upto,
      sum(r.calls) OVER (PARTITION BY r.key, r.place) AS all_calls
    FROM read r
  )
  SELECT c.key, c.place, sum(c.cost)::bigint, sum(c.requests)::bigint, sum(c.errors)::bigint, sum(c.input_tokens)::bigint,
    sum(c.output_tokens)::bigint, sum(c.cached_input_tokens)::bigint, sum(c.saved)::bigint,
    (min(c.bucket) FILTER (WHERE c.upto >= c.all_calls * 0.5))::integer,
    (min(c.bucket) FILTER (WHERE c.upto >= c.all_calls * 0.95))::integer
  FROM counted c GROUP BY c.key, c.place;
END
$$;

REVOKE ALL ON FUNCTION usage_rows_report FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_rows_report TO application_manager;
