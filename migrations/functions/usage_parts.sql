-- Parts of roll-ups: those by hour and quarter of the usage rows of some batches of the outbox, or of a range of time; or
-- those that others become.
CREATE OR REPLACE FUNCTION usage_parts(batches bigint[], tenants uuid[], moments timestamptz[], opens timestamptz,
  closes timestamptz, parts usage_rollups[], level smallint) RETURNS SETOF usage_rollups
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  rows text := $sql$
    facts AS MATERIALIZED (
      SELECT u.*, (u.occurred_at AT TIME ZONE 'UTC')::date AS day,
        (extract(epoch FROM u.occurred_at)::bigint / 900 % 96)::smallint AS quarter
      FROM $sql$ || CASE WHEN batches IS NULL
        THEN 'usage_facts u WHERE u.occurred_at >= $4 AND u.occurred_at < $5'
        ELSE 'unnest($1, $2, $3) AS o(batch, tenant_id, occurred_at) JOIN usage_facts u
          ON u.tenant_id = o.tenant_id AND u.occurred_at = o.occurred_at AND u.batch = o.batch' END || $sql$
    ), keyed AS MATERIALIZED (
      SELECT f.*, d.dimension, d.key, (f.quarter / 4)::smallint AS hour
      FROM facts f CROSS JOIN LATERAL (VALUES (0::smallint, ''),
        (1::smallint, coalesce(f.agent_id::text, '')), (2::smallint, coalesce(f.model, '')),
        (3::smallint, coalesce(f.provider, '')), (4::smallint, coalesce(f.task_type, '')),
        (5::smallint, coalesce(f.application_id::text, '')), (6::smallint, coalesce(f.plan_id::text, '')),
        (7::smallint, coalesce(f.user_id, '')), (8::smallint, coalesce(f.api_key_id::text, ''))) AS d(dimension, key)
    ), cells AS (
      SELECT k.tenant_id, k.dimension, 'h'::"char" AS grain, k.day, k.key, k.hour AS place, sum(k.cost) AS cost,
        sum(k.requests) AS requests, sum(k.errors) AS errors, sum(k.input_tokens) AS input_tokens,
        sum(k.output_tokens) AS output_tokens, sum(k.cached_input_tokens) AS cached_input_tokens, sum(k.saved) AS saved
      FROM keyed k GROUP BY 1, 2, 3, 4, 5, 6
      UNION ALL
      SELECT f.tenant_id, 0::smallint, 'q'::"char", f.day, '', f.quarter, sum(f.cost), sum(f.requests), sum(f.errors),
        sum(f.input_tokens), sum(f.output_tokens), sum(f.cached_input_tokens), sum(f.saved)
      FROM facts f GROUP BY f.tenant_id, f.day, f.quarter
    ), latencies AS (
      SELECT k.tenant_id, k.dimension, 'h'::"char" AS grain, k.day, k.key, k.hour AS place, k.bucket, count(*) AS calls
      FROM keyed k WHERE k.bucket IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6, 7
    ) $sql$;
  merged text := $sql$
    cells AS (
      SELECT r.tenant_id, r.dimension, r.grain, r.day, c.key, c.place, sum(c.cost) AS cost, sum(c.requests) AS requests,
        sum(c.errors) AS errors, sum(c.input_tokens) AS input_tokens, sum(c.output_tokens) AS output_tokens,
        sum(c.cached_input_tokens) AS cached_input_tokens, sum(c.saved) AS saved
      FROM unnest($6) r CROSS JOIN LATERAL unnest(r.keys, r.places, r.cost, r.requests, r.errors, r.input_tokens,
        r.output_tokens, r.cached_input_tokens, r.saved)
        AS c(key, place, cost, requests, errors, input_tokens, output_tokens, cached_input_tokens, saved)
      GROUP BY 1, 2, 3, 4, 5, 6
    ), latencies AS (
      SELECT r.tenant_id, r.dimension, r.grain, r.day, l.key, l.place, l.bucket, sum(l.calls) AS calls
      FROM unnest($6) r CROSS JOIN LATERAL unnest(r.latency_keys, r.latency_places, r.latency_buckets, r.latency_calls)
        AS l(key, place, bucket, calls)
      GROUP BY 1, 2, 3, 4, 5, 6, 7
    ) $sql$;
BEGIN
  RETURN QUERY EXECUTE 'WITH ' || CASE WHEN parts IS NULL THEN rows ELSE merged END || $sql$
    SELECT c.*, l.keys, l.places, l.buckets, l.calls FROM (
      SELECT c.tenant_id, c.dimension, c.grain, c.day, $7 AS level,
        array_agg(c.key ORDER BY c.key COLLATE "C", c.place), array_agg(c.place ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.cost::bigint ORDER BY c.key COLLATE "C", c.place), array_agg(c.requests::bigint ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.errors::bigint ORDER BY c.key COLLATE "C", c.place), array_agg(c.input_tokens::bigint ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.output_tokens::bigint ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.cached_input_tokens::bigint ORDER BY c.key COLLATE "C", c.place),
        array_agg(c.saved::bigint ORDER BY c.key COLLATE "C", c.place)
      FROM cells c GROUP BY c.tenant_id, c.dimension, c.grain, c.day
    ) c LEFT JOIN (
      SELECT l.tenant_id, l.dimension, l.grain, l.day, array_agg(l.key ORDER BY l.key COLLATE "C", l.place, l.bucket) AS keys,
        array_agg(l.place ORDER BY l.key COLLATE "C", l.place, l.bucket) AS places,
        array_agg(l.bucket::smallint ORDER BY l.key COLLATE "C", l.place, l.bucket) AS buckets,
        array_agg(l.calls::bigint ORDER BY l.key COLLATE "C", l.place, l.bucket) AS calls
      FROM latencies l GROUP BY l.tenant_id, l.dimension, l.grain, l.day
    ) l ON l.tenant_id = c.tenant_id AND l.dimension = c.dimension AND l.grain = c.grain AND l.day = c.day
  $sql$ USING batches, tenants, moments, opens, closes, parts, level;
END
$$;

REVOKE ALL ON FUNCTION usage_parts FROM PUBLIC;
