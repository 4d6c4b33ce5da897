-- The cost and the requests of usage_report alone, with its arguments: of roll-ups it reads a third of the arrays.
CREATE OR REPLACE FUNCTION usage_series(tenants uuid[], dimension integer, group_by text, filter text[], wanted text[],
  grains text[], opens timestamptz[], closes timestamptz[], cuts timestamptz[])
RETURNS TABLE (key text, place integer, cost bigint, requests bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_memoize = off
SET work_mem = '32MB' AS $$
#variable_conflict use_column
DECLARE
  rows_from timestamptz := (SELECT min(g.opens) FROM unnest(grains, opens) AS g(grain, opens) WHERE g.grain IN ('r', 's'));
  rows_to timestamptz := (SELECT max(g.closes) FROM unnest(grains, closes) AS g(grain, closes) WHERE g.grain IN ('r', 's'));
BEGIN
  RETURN QUERY
  SELECT c.key, c.place, sum(c.cost)::bigint, sum(c.requests)::bigint
  FROM (
    SELECT r.key, r.place, r.cost[r.n], r.requests[r.n]
    FROM usage_cells_between(tenants, usage_series.dimension, group_by, filter, wanted, grains, opens, closes, cuts) r
    UNION ALL
    SELECT u.key, u.place, u.cost, u.requests
    FROM usage_rows_between(tenants, usage_series.dimension, group_by, filter, wanted, grains, opens, closes, cuts,
        rows_from, rows_to) u
  ) c
  GROUP BY 1, 2;
END
$$;

REVOKE ALL ON FUNCTION usage_series FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_series TO application_manager;
