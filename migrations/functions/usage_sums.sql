-- The roll-ups of some usage rows: those of the batches of an outbox, or else those of a range of time.
CREATE OR REPLACE FUNCTION usage_sums(batches bigint[], tenants uuid[], moments timestamptz[], opens timestamptz,
  closes timestamptz) RETURNS SETOF usage_rollups
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public AS $$
DECLARE
  source text := CASE WHEN batches IS NULL
    THEN 'usage_rows u WHERE u.occurred_at >= $4 AND u.occurred_at < $5 AND u.method <> ''released'''
    ELSE 'unnest($1, $2, $3) AS o(batch, tenant_id, occurred_at) JOIN usage_rows u ON u.tenant_id = o.tenant_id
      AND u.occurred_at = o.occurred_at AND u.batch = o.batch AND u.method <> ''released''' END;
BEGIN
  RETURN QUERY EXECUTE $sql$
    WITH facts AS MATERIALIZED (
      SELECT u.tenant_id, date_bin('15 minutes', u.occurred_at, 'epoch') AS quarter, coalesce(u.agent_id::text, '') AS agent,
        coalesce(u.model, '') AS model, coalesce(u.provider, '') AS provider, coalesce(u.task_type, '') AS task_type,
        coalesce(u.application_id::text, '') AS application, coalesce(u.plan_id::text, '') AS plan,
        coalesce(u.user_id, '') AS user_id, coalesce(u.api_key_id::text, '') AS api_key, u.cost, u.saved,
        (u.method NOT IN ('refunded', 'cached'))::integer AS requests,
        (u.method IN ('unanswered', 'expired') OR (u.method NOT IN ('aborted', 'refunded', 'cached')
          AND coalesce(u.status >= 400, false)))::integer AS errors,
        coalesce(CASE WHEN u.method <> 'cached' THEN u.input_tokens END, 0) AS input_tokens,
        coalesce(CASE WHEN u.method <> 'cached' THEN u.output_tokens END, 0) AS output_tokens,
        coalesce(CASE WHEN u.method <> 'cached' THEN u.cached_input_tokens END, 0) AS cached_input_tokens,
        CASE WHEN u.method <> 'cached' THEN usage_latency_bucket(u.latency_ms) END AS bucket
      FROM $sql$ || source || $sql$
    ), cells AS (
      SELECT f.tenant_id, d.dimension, d.key, date_bin('1 hour', f.quarter, 'epoch') AS hour, f.bucket,
        sum(f.cost) AS cost, sum(f.requests) AS requests, sum(f.errors) AS errors, sum(f.input_tokens) AS input_tokens,
        sum(f.output_tokens) AS output_tokens, sum(f.cached_input_tokens) AS cached_input_tokens, sum(f.saved) AS saved,
        count(*) AS calls
      FROM facts f CROSS JOIN LATERAL (VALUES (0::smallint, ''), (1::smallint, f.agent), (2::smallint, f.model),
        (3::smallint, f.provider), (4::smallint, f.task_type), (5::smallint, f.application), (6::smallint, f.plan),
        (7::smallint, f.user_id), (8::smallint, f.api_key)) AS d(dimension, key)
      GROUP BY f.tenant_id, d.dimension, d.key, date_bin('1 hour', f.quarter, 'epoch'), f.bucket
    )
    SELECT c.tenant_id, c.dimension, 'h'::"char", c.hour, c.key, sum(c.cost)::bigint, sum(c.requests)::bigint,
      sum(c.errors)::bigint, sum(c.input_tokens)::bigint, sum(c.output_tokens)::bigint,
      sum(c.cached_input_tokens)::bigint, sum(c.saved)::bigint,
      array_agg((c.bucket::bigint << 32) + c.calls ORDER BY c.bucket) FILTER (WHERE c.bucket IS NOT NULL)
    FROM cells c GROUP BY c.tenant_id, c.dimension, c.key, c.hour
    UNION ALL
    SELECT c.tenant_id, c.dimension, 'd'::"char", date_bin('1 day', c.hour, 'epoch'), c.key, sum(c.cost)::bigint,
      sum(c.requests)::bigint, sum(c.errors)::bigint, sum(c.input_tokens)::bigint, sum(c.output_tokens)::bigint,
      sum(c.cached_input_tokens)::bigint, sum(c.saved)::bigint,
      usage_merge_latencies(array_agg((c.bucket::bigint << 32) + c.calls) FILTER (WHERE c.bucket IS NOT NULL), NULL)
    FROM cells c GROUP BY c.tenant_id, c.dimension, c.key, date_bin('1 day', c.hour, 'epoch')
    UNION ALL
    SELECT f.tenant_id, 0::smallint, 'q'::"char", f.quarter, '', sum(f.cost)::bigint, sum(f.requests)::bigint,
      sum(f.errors)::bigint, sum(f.input_tokens)::bigint, sum(f.output_tokens)::bigint,
      sum(f.cached_input_tokens)::bigint, sum(f.saved)::bigint, NULL
    FROM facts f GROUP BY f.tenant_id, f.quarter
  $sql$ USING batches, tenants, moments, opens, closes;
END
$$;

REVOKE ALL ON FUNCTION usage_sums FROM PUBLIC;
