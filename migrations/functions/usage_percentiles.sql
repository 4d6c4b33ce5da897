-- The buckets of the median and of the 95th percentile of latencies; the arguments are those of usage_report.
CREATE OR REPLACE FUNCTION usage_percentiles(tenants uuid[], dimension integer, group_by text, filter text[], wanted text[],
  grains text[], opens timestamptz[], closes timestamptz[], cuts timestamptz[])
RETURNS TABLE (key text, place integer, p50 integer, p95 integer)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_memoize = off
SET work_mem = '32MB' AS $$
#variable_conflict use_column
DECLARE
  rows_from timestamptz := (SELECT min(g.opens) FROM unnest(grains, opens) AS g(grain, opens) WHERE g.grain IN ('r', 's'));
  rows_to timestamptz := (SELECT max(g.closes) FROM unnest(grains, closes) AS g(grain, closes) WHERE g.grain IN ('r', 's'));
BEGIN
  RETURN QUERY
  -- What is materialized is grouped by hashes: the histograms are many rows, and the sums of their buckets few to be sorted.
  WITH calls AS MATERIALIZED (
    SELECT c.key COLLATE "C" AS key, c.place, c.bucket, sum(c.calls)::double precision AS calls
    FROM (
      SELECT r.key, r.place, unnest(r.latency_buckets[r.low:r.high]) AS bucket, unnest(r.latency_calls[r.low:r.high]) AS calls
      FROM (
        SELECT r.key, r.place, coalesce(r.latency_ends[r.n - 1], 0) + 1 AS low, r.latency_ends[r.n] AS high,
          r.latency_buckets, r.latency_calls
        FROM usage_cells_between(tenants, usage_percentiles.dimension, group_by, filter, wanted, grains, opens, closes,
          cuts) r
      ) r WHERE r.low <= r.high
      UNION ALL
      SELECT u.key, u.place, u.bucket, 1
      FROM usage_rows_between(tenants, usage_percentiles.dimension, group_by, filter, wanted, grains, opens, closes, cuts,
        rows_from, rows_to) u
      WHERE u.bucket IS NOT NULL
    ) c
    GROUP BY 1, 2, 3
  ), counted AS (
    SELECT c.key, c.place, c.bucket, sum(c.calls) OVER (PARTITION BY c.key, c.place ORDER BY c.bucket) AS upto,
      sum(c.calls) OVER (PARTITION BY c.key, c.place) AS calls
    FROM calls c
  )
  SELECT b.key, b.place, (min(b.bucket) FILTER (WHERE b.upto >= b.calls * 0.5))::integer,
    (min(b.bucket) FILTER (WHERE b.upto >= b.calls * 0.95))::integer
  FROM counted b GROUP BY b.key, b.place;
END
$$;

REVOKE ALL ON FUNCTION usage_percentiles FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_percentiles TO application_manager;
