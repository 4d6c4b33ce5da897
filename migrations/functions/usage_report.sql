-- The sums of usage between each two of `cuts` (their first is place 0) by `group_by`: a key of the dimension, a tenant, or
-- all. Ranges of grain w, d, h or q are read from roll-ups, those of grain r from rows, those of grain s from
-- synthetic rows. `filter` has a value or null for each dimension; roll-ups are of the one dimension alone, whose value it
-- may have. `wanted`, where it is not null, are the keys.
CREATE OR REPLACE FUNCTION usage_report(tenants uuid[], dimension integer, group_by text, filter text[], wanted text[],
  grains text[], opens timestamptz[], closes timestamptz[], cuts timestamptz[])
RETURNS TABLE (key text, place integer, cost bigint, requests bigint, errors bigint, input_tokens bigint,
  output_tokens bigint, cached_input_tokens bigint, saved bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_memoize = off
SET work_mem = '32MB' AS $$
#variable_conflict use_column
DECLARE
  rows_from timestamptz := (SELECT min(g.opens) FROM unnest(grains, opens) AS g(grain, opens) WHERE g.grain IN ('r', 's'));
  rows_to timestamptz := (SELECT max(g.closes) FROM unnest(grains, closes) AS g(grain, closes) WHERE g.grain IN ('r', 's'));
BEGIN
  RETURN QUERY
  SELECT c.key, c.place, sum(c.cost)::bigint, sum(c.requests)::bigint, sum(c.errors)::bigint,
    sum(c.input_tokens)::bigint, sum(c.output_tokens)::bigint, sum(c.cached_input_tokens)::bigint, sum(c.saved)::bigint
  FROM (
    SELECT r.key, r.place, r.cost[r.n], r.requests[r.n], r.errors[r.n], r.input_tokens[r.n], r.output_tokens[r.n],
      r.cached_input_tokens[r.n], r.saved[r.n]
    FROM usage_cells_between(tenants, usage_report.dimension, group_by, filter, wanted, grains, opens, closes, cuts) r
    UNION ALL
    SELECT u.key, u.place, u.cost, u.requests, u.errors, u.input_tokens, u.output_tokens, u.cached_input_tokens, u.saved
    FROM usage_rows_between(tenants, usage_report.dimension, group_by, filter, wanted, grains, opens, closes, cuts,
        rows_from, rows_to) u
  ) c
  GROUP BY 1, 2;
END
$$;

REVOKE ALL ON FUNCTION usage_report FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_report TO application_manager;
