-- Sums of the usage rows in ranges within a day, as parts of roll-ups are: one of each range and tenant, with the place of the
-- range in these lists, from 0 on. `version` tells it from all others of its range while the roll-ups of its day, once that
-- is over, are the same; those whose version is in `known` come without arrays and take no read of rows.
CREATE OR REPLACE FUNCTION usage_row_parts(tenants uuid[], dimension integer, opens timestamptz[], closes timestamptz[],
  known text[], with_latencies boolean)
RETURNS TABLE (segment integer, version text, tenant_id uuid, day date, keys text[], places smallint[], cost bigint[],
  requests bigint[], errors bigint[], input_tokens bigint[], output_tokens bigint[], cached_input_tokens bigint[],
  saved bigint[], latency_ends integer[], latency_buckets smallint[], latency_calls bigint[])
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_memoize = off AS $$
#variable_conflict use_column
DECLARE
  server text := extract(epoch FROM pg_postmaster_start_time());
  rows_from timestamptz := (SELECT min(o) FROM unnest(opens) o);
  rows_to timestamptz := (SELECT max(c) FROM unnest(closes) c);
BEGIN
  RETURN QUERY
  SELECT g.segment, g.version, g.tenant_id, g.day, r.*
  FROM (
    SELECT g.place::integer - 1 AS segment, t.id AS tenant_id, g.opens, g.closes, (g.opens AT TIME ZONE 'UTC')::date AS day,
      (
        SELECT CASE WHEN bool_and(r.level = 9) THEN concat_ws('/', server, t.id, usage_row_parts.dimension, g.opens, g.closes,
          string_agg(concat_ws('/', r.xmin, r.ctid), '/' ORDER BY r.ctid)) END
        FROM usage_rollups r WHERE r.tenant_id = t.id AND r.dimension = 0 AND r.grain = 'q'
          AND r.day = (g.opens AT TIME ZONE 'UTC')::date
      ) AS version
    FROM unnest(opens, closes) WITH ORDINALITY AS g(opens, closes, place) CROSS JOIN unnest(tenants) AS t(id) OFFSET 0
  ) g
  LEFT JOIN LATERAL (
    WITH read AS MATERIALIZED (
      SELECT coalesce(CASE usage_row_parts.dimension WHEN 1 THEN u.agent_id::text WHEN 2 THEN u.model WHEN 3 THEN u.provider
        WHEN 4 THEN u.task_type WHEN 5 THEN u.application_id::text WHEN 6 THEN u.plan_id::text WHEN 7 THEN u.user_id
        WHEN 8 THEN u.api_key_id::text END, '') AS key, CASE WHEN with_latencies THEN u.bucket END AS bucket,
        count(*) AS calls, sum(u.cost) AS cost, sum(u.requests) AS requests, sum(u.errors) AS errors,
        sum(u.input_tokens) AS input_tokens, sum(u.output_tokens) AS output_tokens,
        sum(u.cached_input_tokens) AS cached_input_tokens, sum(u.saved) AS saved
      FROM usage_facts u WHERE u.tenant_id = g.tenant_id AND u.occurred_at >= g.opens AND u.occurred_at < g.closes
        AND u.occurred_at >= rows_from AND u.occurred_at < rows_to
        -- Of one that is known, PostgreSQL tests this before it reads any row.
        AND (g.version = ANY (known)) IS NOT TRUE
      GROUP BY 1, 2
    ), cells AS (
      SELECT r.key, 0::smallint AS place, sum(r.cost)::bigint AS cost, sum(r.requests)::bigint AS requests,
        sum(r.errors)::bigint AS errors, sum(r.input_tokens)::bigint AS input_tokens,
        sum(r.output_tokens)::bigint AS output_tokens, sum(r.cached_input_tokens)::bigint AS cached_input_tokens,
        sum(r.saved)::bigint AS saved, (sum(count(r.bucket)) OVER (ORDER BY r.key COLLATE "C"))::integer AS latency_end
      FROM read r GROUP BY r.key ORDER BY r.key COLLATE "C"
    )
    SELECT c.*, l.* FROM (
      SELECT array_agg(c.key), array_agg(c.place), array_agg(c.cost), array_agg(c.requests), array_agg(c.errors),
        array_agg(c.input_tokens), array_agg(c.output_tokens), array_agg(c.cached_input_tokens), array_agg(c.saved),
        array_agg(c.latency_end) FILTER (WHERE with_latencies) FROM cells c
    ) c CROSS JOIN (
      SELECT array_agg(r.bucket::smallint ORDER BY r.key COLLATE "C", r.bucket),
        array_agg(r.calls ORDER BY r.key COLLATE "C", r.bucket) FROM read r WHERE r.bucket IS NOT NULL
    ) l
  ) r ON true;
END
$$;

REVOKE ALL ON FUNCTION usage_row_parts FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_row_parts TO application_manager;
