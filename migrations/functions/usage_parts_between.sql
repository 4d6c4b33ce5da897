-- The parts of roll-ups of grain w, d, h or q that have a day from `firsts` to `lasts`, each with the place of its grain in
-- these lists, from 0 on. Their reader adds the cells: PostgreSQL takes several times as long to make rows of the elements.
-- `version` tells a part of a day or a week that is over from all others that were there before: by its place, the
-- transaction that wrote it, and the start of the server, since one that starts on a backup gives transactions the same numbers.
CREATE OR REPLACE FUNCTION usage_parts_between(tenants uuid[], dimension integer, grains text[], firsts date[], lasts date[])
RETURNS TABLE (segment integer, version text, tenant_id uuid, day date, keys text[], places smallint[], cost bigint[], requests bigint[],
  errors bigint[], input_tokens bigint[], output_tokens bigint[], cached_input_tokens bigint[], saved bigint[],
  latency_ends integer[], latency_buckets smallint[], latency_calls bigint[])
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_memoize = off AS $$
#variable_conflict use_column
DECLARE
  server text := extract(epoch FROM pg_postmaster_start_time());
BEGIN
  RETURN QUERY
  SELECT g.place::integer - 1, r.*
  FROM unnest(grains, firsts, lasts) WITH ORDINALITY AS g(grain, first, last, place)
  CROSS JOIN (
    -- A tenant that has not used a dimension has no roll-ups of it: those of all rows are without a value of it.
    -- LIMIT keeps the planner from reading those of all tenants.
    SELECT t.id, CASE WHEN (SELECT true FROM usage_rollups r
      WHERE r.tenant_id = t.id AND r.dimension = usage_parts_between.dimension LIMIT 1)
      THEN usage_parts_between.dimension ELSE 0 END AS dimension
    FROM unnest(tenants) AS t(id) OFFSET 0
  ) t
  CROSS JOIN LATERAL (
    SELECT CASE r.level WHEN 9 THEN concat_ws('/', server, r.tenant_id, usage_parts_between.dimension, r.grain, r.day, r.xmin,
        r.ctid) END AS version,
      r.tenant_id, r.day, r.keys, r.places, r.cost, r.requests, r.errors, r.input_tokens, r.output_tokens,
      r.cached_input_tokens, r.saved, r.latency_ends, r.latency_buckets, r.latency_calls
    FROM usage_rollups r WHERE r.tenant_id = t.id AND r.dimension = t.dimension AND r.grain = g.grain::"char"
      AND r.day BETWEEN g.first AND g.last OFFSET 0
  ) r;
END
$$;

REVOKE ALL ON FUNCTION usage_parts_between FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_parts_between TO application_manager;
