-- The roll-ups of some usage rows: those of the batches of an outbox, or else those of a range of time.
CREATE OR REPLACE FUNCTION usage_sums(batches bigint[], tenants uuid[], moments timestamptz[], opens timestamptz,
  closes timestamptz) RETURNS SETOF usage_rollups
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public AS $$
DECLARE
  source text := CASE WHEN batches IS NULL
    THEN 'usage_facts u WHERE u.occurred_at >= $4 AND u.occurred_at < $5'
    ELSE 'unnest($1, $2, $3) AS o(batch, tenant_id, occurred_at) JOIN usage_facts u
      ON u.tenant_id = o.tenant_id AND u.occurred_at = o.occurred_at AND u.batch = o.batch' END;
BEGIN
  RETURN QUERY EXECUTE $sql$
    WITH facts AS MATERIALIZED (
      SELECT u.*, date_bin('15 minutes', u.occurred_at, 'epoch') AS quarter
      FROM $sql$ || source || $sql$
    ), cells AS (
      SELECT f.tenant_id, d.dimension, d.key, date_bin('1 hour', f.quarter, 'epoch') AS hour, f.bucket,
        sum(f.cost) AS cost, sum(f.requests) AS requests, sum(f.errors) AS errors, sum(f.input_tokens) AS input_tokens,
        sum(f.output_tokens) AS output_tokens, sum(f.cached_input_tokens) AS cached_input_tokens, sum(f.saved) AS saved,
        count(*) AS calls
      FROM facts f CROSS JOIN LATERAL (VALUES (0::smallint, ''),
        (1::smallint, coalesce(f.agent_id::text, '')), (2::smallint, coalesce(f.model, '')),
        (3::smallint, coalesce(f.provider, '')), (4::smallint, coalesce(f.task_type, '')),
        (5::smallint, coalesce(f.application_id::text, '')), (6::smallint, coalesce(f.plan_id::text, '')),
        (7::smallint, coalesce(f.user_id, '')), (8::smallint, coalesce(f.api_key_id::text, ''))) AS d(dimension, key)
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
