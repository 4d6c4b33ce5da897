-- The cells of roll-ups in the segments of grain w, d, h or q, each as its position in the arrays of its part; other arguments
-- are those of usage_report. A function in SQL without settings becomes part of the statement that calls it, so arrays
-- that this does not read are not decompressed.
CREATE OR REPLACE FUNCTION usage_cells_between(tenants uuid[], dimension integer, group_by text, filter text[],
  wanted text[], grains text[], opens timestamptz[], closes timestamptz[], cuts timestamptz[])
RETURNS TABLE (key text, place integer, n integer, cost bigint[], requests bigint[], errors bigint[], input_tokens bigint[],
  output_tokens bigint[], cached_input_tokens bigint[], saved bigint[], latency_ends integer[], latency_buckets smallint[],
  latency_calls bigint[])
LANGUAGE sql STABLE AS $$
  SELECT coalesce(r.label, e.key), coalesce(r.cut, width_bucket(r.starts + e.place * r.width, cuts) - 1), e.n, r.cost,
    r.requests, r.errors, r.input_tokens, r.output_tokens, r.cached_input_tokens, r.saved, r.latency_ends,
    r.latency_buckets, r.latency_calls
  FROM (
    SELECT t.id, t.dimension, g.grain::"char" AS grain, g.opens, g.closes, w.width, extract(epoch FROM w.width)::bigint AS seconds,
      (g.opens AT TIME ZONE 'UTC')::date AS first, ((g.closes - interval '1 microsecond') AT TIME ZONE 'UTC')::date AS last
    FROM unnest(grains, opens, closes) AS g(grain, opens, closes) CROSS JOIN (
      -- A tenant that has not used a dimension has no roll-ups of it: those of all rows are without a value of it.
      -- LIMIT keeps the planner from reading those of all tenants.
      SELECT t.id, CASE WHEN (SELECT true FROM usage_rollups r
        WHERE r.tenant_id = t.id AND r.dimension = usage_cells_between.dimension LIMIT 1)
        THEN usage_cells_between.dimension ELSE 0 END AS dimension
      FROM unnest(tenants) AS t(id) OFFSET 0
    ) t
    CROSS JOIN LATERAL (SELECT CASE g.grain WHEN 'h' THEN interval '1 hour' WHEN 'q' THEN interval '15 minutes'
      ELSE interval '24 hours' END AS width) w
    WHERE g.grain NOT IN ('r', 's') OFFSET 0
  ) g
  -- OFFSET 0 keeps the planner from joining another way than by the index, segment by segment. A slice is decompressed
  -- once, and not for each of its elements.
  CROSS JOIN LATERAL (
    SELECT r.keys, r.places, r.cost[:], r.requests[:], r.errors[:], r.input_tokens[:], r.output_tokens[:],
      r.cached_input_tokens[:], r.saved[:], r.latency_ends[:], r.latency_buckets[:], r.latency_calls[:], d.starts, g.width,
      CASE group_by WHEN 'total' THEN '' WHEN 'tenant' THEN r.tenant_id::text END AS label,
      filter[usage_cells_between.dimension] AS only,
      CASE WHEN cardinality(cuts) = 2 THEN 0 WHEN g.grain IN ('w', 'd') THEN width_bucket(d.starts, cuts) - 1 END AS cut,
      extract(epoch FROM g.opens - d.starts)::bigint / g.seconds AS low,
      extract(epoch FROM g.closes - d.starts)::bigint / g.seconds AS high
    FROM usage_rollups r CROSS JOIN LATERAL (SELECT r.day::timestamp AT TIME ZONE 'UTC' AS starts) d
    WHERE r.tenant_id = g.id AND r.dimension = g.dimension AND r.grain = g.grain
      AND r.day BETWEEN g.first AND g.last OFFSET 0
  ) r
  -- In a list of columns the arrays are read side by side, which is faster than as a table.
  CROSS JOIN LATERAL (
    SELECT unnest(r.keys) AS key, unnest(r.places) AS place, generate_subscripts(r.keys, 1) AS n
  ) e
  WHERE e.place >= r.low AND e.place < r.high
    AND (r.only IS NULL OR e.key = r.only)
    AND (wanted IS NULL OR coalesce(r.label, e.key) IN (SELECT unnest(wanted)))
$$;

REVOKE ALL ON FUNCTION usage_cells_between FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_cells_between TO application_manager;
