-- Parts of roll-ups: those by hour and quarter of the usage rows of some batches of the outbox, or of a range of time; or
-- those that others become. The planner knows too little of arrays: without hashes it would compare each element with all others.
CREATE OR REPLACE FUNCTION usage_parts(batches bigint[], tenants uuid[], moments timestamptz[], opens timestamptz,
  closes timestamptz, parts usage_rollups[], level smallint) RETURNS SETOF usage_rollups
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public SET enable_nestloop = off AS $$
DECLARE
  rows text := $sql$
    facts AS MATERIALIZED (
      SELECT u.tenant_id, u.agent_id, u.model, u.provider, u.task_type, u.application_id, u.plan_id, u.user_id, u.api_key_id,
        u.cost, u.requests, u.errors, u.input_tokens, u.output_tokens, u.cached_input_tokens, u.saved,
        u.bucket::smallint AS bucket, (u.occurred_at AT TIME ZONE 'UTC')::date AS day,
        mod(floor(date_part('epoch', u.occurred_at))::bigint / 900, 96)::smallint AS quarter
      FROM $sql$ || CASE WHEN batches IS NULL
        THEN 'usage_facts u WHERE u.occurred_at >= $4 AND u.occurred_at < $5'
        -- One read of an index for the batches of a minute takes less time than one for each.
        ELSE '(SELECT r.tenant_id, min(r.occurred_at) AS opens, max(r.occurred_at) AS closes
            FROM unnest($2, $3) AS r(tenant_id, occurred_at)
            GROUP BY r.tenant_id, date_bin(''1 minute'', r.occurred_at, ''epoch'')) r
          CROSS JOIN LATERAL (SELECT * FROM usage_facts u WHERE u.tenant_id = r.tenant_id
            AND u.occurred_at >= r.opens AND u.occurred_at <= r.closes OFFSET 0) u
          JOIN unnest($1, $2, $3) AS o(batch, tenant_id, occurred_at)
            ON o.batch = u.batch AND o.tenant_id = u.tenant_id AND o.occurred_at = u.occurred_at' END || $sql$
    ), grouped AS MATERIALIZED (
      SELECT f.tenant_id, f.day, (f.quarter / 4)::smallint AS place, %1$s AS dimension, %2$s AS key,
        sum(f.cost)::bigint AS cost, sum(f.requests) AS requests, sum(f.errors) AS errors,
        sum(f.input_tokens)::bigint AS input_tokens, sum(f.output_tokens)::bigint AS output_tokens,
        sum(f.cached_input_tokens)::bigint AS cached_input_tokens, sum(f.saved)::bigint AS saved
      FROM facts f
      GROUP BY f.tenant_id, f.day, f.quarter / 4,
        GROUPING SETS ((), f.agent_id, f.model, f.provider, f.task_type, f.application_id, f.plan_id, f.user_id, f.api_key_id)
    ), used AS MATERIALIZED (
      -- A dimension that no row of a tenant has yet has no parts: they would be those of all rows.
      -- LIMIT keeps the planner from reading the index of all roll-ups.
      SELECT g.tenant_id, g.dimension FROM grouped g GROUP BY g.tenant_id, g.dimension
      HAVING g.dimension = 0 OR bool_or(g.key <> '') OR (
        SELECT true FROM usage_rollups r WHERE r.tenant_id = g.tenant_id AND r.dimension = g.dimension LIMIT 1)
    ), sums AS (
      SELECT g.tenant_id, g.dimension, 'h'::"char" AS grain, g.day, g.key, g.place, g.cost, g.requests, g.errors,
        g.input_tokens, g.output_tokens, g.cached_input_tokens, g.saved
      FROM grouped g JOIN used USING (tenant_id, dimension)
      UNION ALL
      SELECT f.tenant_id, 0::smallint, 'q'::"char", f.day, '', f.quarter, sum(f.cost)::bigint, sum(f.requests),
        sum(f.errors), sum(f.input_tokens)::bigint, sum(f.output_tokens)::bigint, sum(f.cached_input_tokens)::bigint,
        sum(f.saved)::bigint
      FROM facts f GROUP BY f.tenant_id, f.day, f.quarter
    ), latencies AS MATERIALIZED (
      SELECT g.tenant_id, g.dimension, 'h'::"char" AS grain, g.day, g.key, g.place, g.bucket, g.calls
      FROM (
        SELECT f.tenant_id, f.day, (f.quarter / 4)::smallint AS place, f.bucket, %1$s AS dimension, %2$s AS key,
          count(*) AS calls
        FROM facts f WHERE f.bucket IS NOT NULL
        GROUP BY f.tenant_id, f.day, f.quarter / 4, f.bucket,
          GROUPING SETS ((), f.agent_id, f.model, f.provider, f.task_type, f.application_id, f.plan_id, f.user_id, f.api_key_id)
      ) g JOIN used USING (tenant_id, dimension)
    ) $sql$;
  -- The number and the key of the dimension that a row of the grouping sets is of.
  dimension text := $sql$CASE GROUPING(f.agent_id, f.model, f.provider, f.task_type, f.application_id, f.plan_id, f.user_id,
        f.api_key_id) WHEN 255 THEN 0 WHEN 127 THEN 1 WHEN 191 THEN 2 WHEN 223 THEN 3 WHEN 239 THEN 4 WHEN 247 THEN 5
        WHEN 251 THEN 6 WHEN 253 THEN 7 WHEN 254 THEN 8 END::smallint$sql$;
  key text := $sql$coalesce(f.agent_id::text, f.model, f.provider, f.task_type, f.application_id::text, f.plan_id::text,
        f.user_id, f.api_key_id::text, '')$sql$;
  merged text := $sql$
    sums AS (
      SELECT c.tenant_id, c.dimension, c.grain, c.day, c.key, c.place, sum(c.cost)::bigint AS cost,
        sum(c.requests)::bigint AS requests, sum(c.errors)::bigint AS errors, sum(c.input_tokens)::bigint AS input_tokens,
        sum(c.output_tokens)::bigint AS output_tokens, sum(c.cached_input_tokens)::bigint AS cached_input_tokens,
        sum(c.saved)::bigint AS saved
      FROM (
        SELECT r.tenant_id, r.dimension, r.grain, r.day, unnest(r.keys) AS key, unnest(r.places) AS place,
          unnest(r.cost) AS cost, unnest(r.requests) AS requests, unnest(r.errors) AS errors,
          unnest(r.input_tokens) AS input_tokens, unnest(r.output_tokens) AS output_tokens,
          unnest(r.cached_input_tokens) AS cached_input_tokens, unnest(r.saved) AS saved
        FROM unnest($6) r
      ) c GROUP BY 1, 2, 3, 4, 5, 6
    ), latencies AS MATERIALIZED (
      SELECT l.tenant_id, l.dimension, l.grain, l.day, l.key, l.place, l.bucket, sum(l.calls)::bigint AS calls
      FROM (
        SELECT c.tenant_id, c.dimension, c.grain, c.day, c.key, c.place,
          unnest(c.latency_buckets[c.low:c.high]) AS bucket, unnest(c.latency_calls[c.low:c.high]) AS calls
        FROM (
          SELECT r.*, c.key, c.place, coalesce(r.latency_ends[c.n - 1], 0) + 1 AS low, r.latency_ends[c.n] AS high
          FROM (
            -- A slice is decompressed once, and not for each of its cells.
            SELECT r.tenant_id, r.dimension, r.grain, r.day, r.keys, r.places, r.latency_ends[:], r.latency_buckets[:],
              r.latency_calls[:]
            FROM unnest($6) r WHERE r.latency_ends IS NOT NULL OFFSET 0
          ) r CROSS JOIN LATERAL (
            SELECT unnest(r.keys) AS key, unnest(r.places) AS place, generate_subscripts(r.keys, 1) AS n
          ) c
        ) c WHERE c.low <= c.high
      ) l GROUP BY 1, 2, 3, 4, 5, 6, 7
    ) $sql$;
BEGIN
  RETURN QUERY EXECUTE 'WITH ' || CASE WHEN parts IS NULL THEN format(rows, dimension, key) ELSE merged END || $sql$, cells AS (
      SELECT s.*, sum(coalesce(l.buckets, 0)) OVER (PARTITION BY s.tenant_id, s.dimension, s.grain, s.day
        ORDER BY s.key COLLATE "C", s.place) AS latency_end
      FROM sums s LEFT JOIN (
        SELECT l.tenant_id, l.dimension, l.grain, l.day, l.key, l.place, count(*) AS buckets
        FROM latencies l GROUP BY 1, 2, 3, 4, 5, 6
      ) l ON l.tenant_id = s.tenant_id AND l.dimension = s.dimension AND l.grain = s.grain AND l.day = s.day
        AND l.key = s.key AND l.place = s.place
    )
    SELECT c.*, l.buckets, l.calls FROM (
      SELECT c.tenant_id, c.dimension, c.grain, c.day, $7 AS level,
        array_agg(c.key ORDER BY c.key COLLATE "C", c.place), array_agg(c.place ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.cost ORDER BY c.key COLLATE "C", c.place), array_agg(c.requests ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.errors ORDER BY c.key COLLATE "C", c.place), array_agg(c.input_tokens ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.output_tokens ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.cached_input_tokens ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.saved ORDER BY c.key COLLATE "C", c.place),
        CASE WHEN max(c.latency_end) > 0 THEN array_agg(c.latency_end::integer ORDER BY c.key COLLATE "C", c.place) END
      FROM cells c GROUP BY c.tenant_id, c.dimension, c.grain, c.day
    ) c LEFT JOIN (
      SELECT l.tenant_id, l.dimension, l.grain, l.day,
        array_agg(l.bucket ORDER BY l.key COLLATE "C", l.place, l.bucket) AS buckets,
        array_agg(l.calls ORDER BY l.key COLLATE "C", l.place, l.bucket) AS calls
      FROM latencies l GROUP BY l.tenant_id, l.dimension, l.grain, l.day
    ) l ON l.tenant_id = c.tenant_id AND l.dimension = c.dimension AND l.grain = c.grain AND l.day = c.day
  $sql$ USING batches, tenants, moments, opens, closes, parts, level;
END
$$;

REVOKE ALL ON FUNCTION usage_parts FROM PUBLIC;
