-- The buckets of the median and of the 95th percentile of latencies; the arguments are those of usage_report.
CREATE OR REPLACE FUNCTION usage_percentiles(tenants uuid[], dimension integer, group_by text, filter text[], wanted text[],
  grains text[], opens timestamptz[], closes timestamptz[], cuts timestamptz[])
RETURNS TABLE (key text, place integer, p50 integer, p95 integer)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_memoize = off
SET work_mem = '32MB' AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH calls AS (
    SELECT c.key, c.place, c.bucket, sum(c.calls)::double precision AS calls
  FROM (
    SELECT coalesce(r.label, e.key) AS key,
      coalesce(r.cut, width_bucket(r.starts + e.place * r.width, cuts) - 1) AS place, e.bucket, e.calls
    FROM (
      SELECT t.id, g.grain::"char" AS grain, g.opens, g.closes, w.width, extract(epoch FROM w.width)::bigint AS seconds,
        (g.opens AT TIME ZONE 'UTC')::date AS first, ((g.closes - interval '1 microsecond') AT TIME ZONE 'UTC')::date AS last
      FROM unnest(grains, opens, closes) AS g(grain, opens, closes) CROSS JOIN unnest(tenants) AS t(id)
      CROSS JOIN LATERAL (SELECT CASE g.grain WHEN 'h' THEN interval '1 hour' WHEN 'q' THEN interval '15 minutes'
        ELSE interval '24 hours' END AS width) w
      WHERE g.grain NOT IN ('r', 's') OFFSET 0
    ) g
    -- OFFSET 0 keeps the planner from joining another way than by the index, segment by segment.
    CROSS JOIN LATERAL (
      SELECT r.*, d.starts, g.width,
        CASE group_by WHEN 'total' THEN '' WHEN 'tenant' THEN r.tenant_id::text END AS label,
        filter[usage_percentiles.dimension] AS only,
        CASE WHEN cardinality(cuts) = 2 THEN 0 WHEN g.grain IN ('w', 'd') THEN width_bucket(d.starts, cuts) - 1 END AS cut,
        extract(epoch FROM g.opens - d.starts)::bigint / g.seconds AS low,
        extract(epoch FROM g.closes - d.starts)::bigint / g.seconds AS high
      FROM usage_rollups r CROSS JOIN LATERAL (SELECT r.day::timestamp AT TIME ZONE 'UTC' AS starts) d
      WHERE r.tenant_id = g.id AND r.dimension = usage_percentiles.dimension AND r.grain = g.grain
        AND r.day BETWEEN g.first AND g.last OFFSET 0
    ) r
    -- In a list of columns the arrays are read side by side, which is faster than as a table.
    CROSS JOIN LATERAL (
      SELECT unnest(r.latency_keys) AS key, unnest(r.latency_places) AS place, unnest(r.latency_buckets) AS bucket,
        unnest(r.latency_calls) AS calls
    ) e
    WHERE e.place >= r.low AND e.place < r.high
      AND (r.only IS NULL OR e.key = r.only)
    UNION ALL
    SELECT CASE group_by WHEN 'total' THEN '' WHEN 'tenant' THEN u.tenant_id::text
        ELSE coalesce(CASE usage_percentiles.dimension WHEN 1 THEN u.agent_id::text WHEN 2 THEN u.model WHEN 3 THEN u.provider
        WHEN 4 THEN u.task_type WHEN 5 THEN u.application_id::text WHEN 6 THEN u.plan_id::text WHEN 7 THEN u.user_id
        WHEN 8 THEN u.api_key_id::text END, '') END,
      width_bucket(u.occurred_at, cuts) - 1, u.bucket, 1
    FROM (
      SELECT t.id, g.grain, g.opens, g.closes FROM unnest(grains, opens, closes) AS g(grain, opens, closes)
      CROSS JOIN unnest(tenants) AS t(id) WHERE g.grain IN ('r', 's') OFFSET 0
    ) g
    CROSS JOIN LATERAL (
      SELECT * FROM usage_sources u WHERE u.grain = g.grain AND u.tenant_id = g.id AND u.occurred_at >= g.opens AND u.occurred_at < g.closes
        AND u.bucket IS NOT NULL AND (filter[1] IS NULL OR u.agent_id = filter[1]::uuid)
        AND (filter[2] IS NULL OR u.model = filter[2]) AND (filter[3] IS NULL OR u.provider = filter[3])
        AND (filter[4] IS NULL OR u.task_type = filter[4])
        AND (filter[5] IS NULL OR u.application_id = filter[5]::integer)
        AND (filter[6] IS NULL OR u.plan_id = filter[6]::uuid) AND (filter[7] IS NULL OR u.user_id = filter[7])
        AND (filter[8] IS NULL OR u.api_key_id = filter[8]::uuid) OFFSET 0
    ) u
  ) c
  WHERE wanted IS NULL OR c.key IN (SELECT w FROM unnest(wanted) w)
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
