-- Parts of roll-ups: those by hour and quarter of the usage rows of some batches of the outbox, or of a range of time; or
-- those that others become.
CREATE OR REPLACE FUNCTION usage_parts(batches bigint[], tenants uuid[], moments timestamptz[], opens timestamptz,
  closes timestamptz, parts usage_rollups[], level smallint) RETURNS SETOF usage_rollups
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  rows text := $sql$
    facts AS MATERIALIZED (
      SELECT u.tenant_id, u.agent_id, u.model, u.provider, u.task_type, u.application_id, u.plan_id, u.user_id, u.api_key_id,
        u.cost, u.requests, u.errors, u.input_tokens, u.output_tokens, u.cached_input_tokens, u.saved,
        u.bucket::smallint AS bucket, (u.occurred_at AT TIME ZONE 'UTC')::date AS day,
        (extract(epoch FROM u.occurred_at)::bigint / 900 % 96)::smallint AS quarter
      FROM $sql$ || CASE WHEN batches IS NULL
        THEN 'usage_facts u WHERE u.occurred_at >= $4 AND u.occurred_at < $5'
        ELSE 'unnest($1, $2, $3) AS o(batch, tenant_id, occurred_at) JOIN usage_facts u
          ON u.tenant_id = o.tenant_id AND u.occurred_at = o.occurred_at AND u.batch = o.batch' END || $sql$
    ), grouped AS MATERIALIZED (
      SELECT f.tenant_id, f.day, (f.quarter / 4)::smallint AS hour, f.bucket,
        CASE GROUPING(f.agent_id, f.model, f.provider, f.task_type, f.application_id, f.plan_id, f.user_id, f.api_key_id)
          WHEN 255 THEN 0 WHEN 127 THEN 1 WHEN 191 THEN 2 WHEN 223 THEN 3 WHEN 239 THEN 4 WHEN 247 THEN 5 WHEN 251 THEN 6
          WHEN 253 THEN 7 WHEN 254 THEN 8 END::smallint AS dimension,
        coalesce(f.agent_id::text, f.model, f.provider, f.task_type, f.application_id::text, f.plan_id::text, f.user_id,
          f.api_key_id::text, '') AS key,
        sum(f.cost) AS cost, sum(f.requests) AS requests, sum(f.errors) AS errors, sum(f.input_tokens) AS input_tokens,
        sum(f.output_tokens) AS output_tokens, sum(f.cached_input_tokens) AS cached_input_tokens, sum(f.saved) AS saved,
        count(f.bucket) AS calls
      FROM facts f
      GROUP BY f.tenant_id, f.day, f.quarter / 4, f.bucket,
        GROUPING SETS ((), f.agent_id, f.model, f.provider, f.task_type, f.application_id, f.plan_id, f.user_id, f.api_key_id)
    ), used AS (
      -- A dimension that no row of a tenant has yet has no parts: they would be those of all rows.
      SELECT g.tenant_id, g.dimension FROM grouped g GROUP BY g.tenant_id, g.dimension
      HAVING g.dimension = 0 OR bool_or(g.key <> '') OR EXISTS (
        SELECT FROM usage_rollups r WHERE r.tenant_id = g.tenant_id AND r.dimension = g.dimension)
    ), measured AS (
      SELECT g.tenant_id, g.dimension, 'h'::"char" AS grain, g.day, g.key, g.hour AS place, g.bucket, g.cost, g.requests,
        g.errors, g.input_tokens, g.output_tokens, g.cached_input_tokens, g.saved, g.calls
      FROM grouped g JOIN used USING (tenant_id, dimension)
      UNION ALL
      SELECT f.tenant_id, 0::smallint, 'q'::"char", f.day, '', f.quarter, NULL, sum(f.cost), sum(f.requests), sum(f.errors),
        sum(f.input_tokens), sum(f.output_tokens), sum(f.cached_input_tokens), sum(f.saved), 0
      FROM facts f GROUP BY f.tenant_id, f.day, f.quarter
    ) $sql$;
  merged text := $sql$
    measured AS (
      SELECT c.tenant_id, c.dimension, c.grain, c.day, c.key, c.place, c.bucket, sum(c.cost) AS cost,
        sum(c.requests) AS requests, sum(c.errors) AS errors, sum(c.input_tokens) AS input_tokens,
        sum(c.output_tokens) AS output_tokens, sum(c.cached_input_tokens) AS cached_input_tokens, sum(c.saved) AS saved,
        sum(c.calls) AS calls
      FROM (
        SELECT r.tenant_id, r.dimension, r.grain, r.day, unnest(r.keys) AS key, unnest(r.places) AS place,
          NULL::smallint AS bucket, unnest(r.cost) AS cost, unnest(r.requests) AS requests, unnest(r.errors) AS errors,
          unnest(r.input_tokens) AS input_tokens, unnest(r.output_tokens) AS output_tokens,
          unnest(r.cached_input_tokens) AS cached_input_tokens, unnest(r.saved) AS saved, 0 AS calls
        FROM unnest($6) r
        UNION ALL
        SELECT l.tenant_id, l.dimension, l.grain, l.day, l.key, l.place, unnest(l.latency_buckets[l.low:l.high]),
          0, 0, 0, 0, 0, 0, 0, unnest(l.latency_calls[l.low:l.high])
        FROM (
          SELECT r.tenant_id, r.dimension, r.grain, r.day, r.latency_buckets, r.latency_calls, c.key, c.place,
            lag(c.high, 1, 0) OVER (PARTITION BY r.ordinality ORDER BY c.ordinality) + 1 AS low, c.high
          FROM unnest($6) WITH ORDINALITY r
          CROSS JOIN LATERAL unnest(r.keys, r.places, r.latency_ends) WITH ORDINALITY AS c(key, place, high)
          WHERE r.latency_ends IS NOT NULL
        ) l
      ) c GROUP BY 1, 2, 3, 4, 5, 6, 7
    ) $sql$;
BEGIN
  RETURN QUERY EXECUTE 'WITH ' || CASE WHEN parts IS NULL THEN rows ELSE merged END || $sql$, cells AS (
      SELECT c.*, sum(c.buckets) OVER (PARTITION BY c.tenant_id, c.dimension, c.grain, c.day
        ORDER BY c.key COLLATE "C", c.place) AS latency_end
      FROM (
        SELECT m.tenant_id, m.dimension, m.grain, m.day, m.key, m.place, sum(m.cost) AS cost, sum(m.requests) AS requests,
          sum(m.errors) AS errors, sum(m.input_tokens) AS input_tokens, sum(m.output_tokens) AS output_tokens,
          sum(m.cached_input_tokens) AS cached_input_tokens, sum(m.saved) AS saved, count(m.bucket) AS buckets
        FROM measured m GROUP BY 1, 2, 3, 4, 5, 6
      ) c
    )
    SELECT c.*, l.buckets, l.calls FROM (
      SELECT c.tenant_id, c.dimension, c.grain, c.day, $7 AS level,
        array_agg(c.key ORDER BY c.key COLLATE "C", c.place), array_agg(c.place ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.cost::bigint ORDER BY c.key COLLATE "C", c.place), array_agg(c.requests::bigint ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.errors::bigint ORDER BY c.key COLLATE "C", c.place), array_agg(c.input_tokens::bigint ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.output_tokens::bigint ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.cached_input_tokens::bigint ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.saved::bigint ORDER BY c.key COLLATE "C", c.place),
        CASE WHEN max(c.latency_end) > 0 THEN array_agg(c.latency_end::integer ORDER BY c.key COLLATE "C", c.place) END
      FROM cells c GROUP BY c.tenant_id, c.dimension, c.grain, c.day
    ) c LEFT JOIN (
      SELECT m.tenant_id, m.dimension, m.grain, m.day,
        array_agg(m.bucket ORDER BY m.key COLLATE "C", m.place, m.bucket) AS buckets,
        array_agg(m.calls::bigint ORDER BY m.key COLLATE "C", m.place, m.bucket) AS calls
      FROM measured m WHERE m.bucket IS NOT NULL GROUP BY m.tenant_id, m.dimension, m.grain, m.day
    ) l ON l.tenant_id = c.tenant_id AND l.dimension = c.dimension AND l.grain = c.grain AND l.day = c.day
  $sql$ USING batches, tenants, moments, opens, closes, parts, level;
END
$$;

REVOKE ALL ON FUNCTION usage_parts FROM PUBLIC;
