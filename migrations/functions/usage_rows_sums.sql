-- The sums of the usage rows in the segments of grain r, and of the synthetic ones in those of grain s, between each two of
-- `cuts` (their first is place 0) by `group_by`: a key of the dimension, a tenant, or all. `filter` has a value or null for each
-- dimension; `wanted`, where it is not null, are the keys. `by_bucket` divides the sums by the bucket of their latency.
CREATE OR REPLACE FUNCTION usage_rows_sums(tenants uuid[], dimension integer, group_by text, filter text[], wanted text[],
  grains text[], opens timestamptz[], closes timestamptz[], cuts timestamptz[], by_bucket boolean)
RETURNS TABLE (key text, place integer, bucket integer, cost bigint, requests bigint, errors bigint, input_tokens bigint,
  output_tokens bigint, cached_input_tokens bigint, saved bigint, calls bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_memoize = off
SET work_mem = '32MB' AS $$
#variable_conflict use_column
DECLARE
  rows_from timestamptz := (SELECT min(g.opens) FROM unnest(grains, opens) AS g(grain, opens) WHERE g.grain IN ('r', 's'));
  rows_to timestamptz := (SELECT max(g.closes) FROM unnest(grains, closes) AS g(grain, closes) WHERE g.grain IN ('r', 's'));
BEGIN
  RETURN QUERY
  SELECT u.key, u.place, CASE WHEN by_bucket THEN u.bucket END, sum(u.cost)::bigint, sum(u.requests),
    sum(u.errors), sum(u.input_tokens)::bigint, sum(u.output_tokens)::bigint, sum(u.cached_input_tokens)::bigint,
    sum(u.saved)::bigint, count(u.bucket)
  FROM usage_rows_between(tenants, usage_rows_sums.dimension, group_by, filter, wanted, grains, opens, closes, cuts,
    rows_from, rows_to) u
  WHERE NOT by_bucket OR u.bucket IS NOT NULL
  GROUP BY 1, 2, 3;
END
$$;

REVOKE ALL ON FUNCTION usage_rows_sums FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_rows_sums TO application_manager;
