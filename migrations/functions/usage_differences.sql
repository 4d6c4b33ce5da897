-- Where the entries of the ledger, the usage rows and the roll-ups of a tenant's day (UTC) differ. Only days that have rows
-- or that retention has not reached are compared with rows. All statements of the transaction that calls it see one state.
CREATE OR REPLACE FUNCTION usage_differences()
RETURNS TABLE (what text, tenant_id text, day text, expected text, found text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public SET work_mem = '64MB' AS $$
  WITH pending AS (
    SELECT DISTINCT o.tenant_id, date_bin('1 day', o.occurred_at, 'epoch') AS day FROM usage_outbox o
  ), rows AS (
    SELECT u.tenant_id, date_bin('1 day', u.occurred_at, 'epoch') AS day, sum(u.cost) AS cost, sum(u.saved) AS saved,
      sum(u.requests) AS requests, sum(u.errors) AS errors, sum(u.input_tokens) AS input_tokens,
      sum(u.output_tokens) AS output_tokens, sum(u.cached_input_tokens) AS cached_input_tokens, count(u.bucket) AS calls,
      ARRAY[count(u.agent_id), count(u.model), count(u.provider), count(u.task_type), count(u.application_id),
        count(u.plan_id), count(u.user_id), count(u.api_key_id)] AS valued
    FROM usage_facts u GROUP BY 1, 2
  ), spent AS (
    SELECT u.tenant_id, date_bin('1 day', u.occurred_at, 'epoch') AS day, sum(u.cost) AS cost
    FROM usage_counted u GROUP BY 1, 2
  ), used AS (
    -- The dimensions that a tenant has used, and so has roll-ups of.
    SELECT r.tenant_id, (v.place - 1)::smallint AS dimension
    FROM rows r CROSS JOIN LATERAL unnest(1::bigint || r.valued) WITH ORDINALITY AS v(rows, place) WHERE v.rows > 0
    UNION SELECT r.tenant_id, r.dimension FROM usage_rollups r
  ), entries AS (
    SELECT e.tenant_id, date_bin('1 day', e.occurred_at, 'epoch') AS day, sum(e.amount) AS cost
    FROM budget_entries e
    WHERE date_bin('1 day', e.occurred_at, 'epoch') >= (SELECT coalesce(min(s.day), 'infinity') FROM spent s)
    GROUP BY 1, 2
  ), parts AS MATERIALIZED (
    SELECT r.tenant_id, r.dimension, r.grain, r.day, c.*,
      coalesce((SELECT sum(l) FROM unnest(r.latency_calls) l), 0) AS calls
    FROM usage_rollups r CROSS JOIN LATERAL (
      SELECT sum(e.cost) AS cost, sum(e.saved) AS saved, sum(e.requests) AS requests, sum(e.errors) AS errors,
        sum(e.input_tokens) AS input_tokens, sum(e.output_tokens) AS output_tokens,
        sum(e.cached_input_tokens) AS cached_input_tokens
      FROM unnest(r.cost, r.saved, r.requests, r.errors, r.input_tokens, r.output_tokens, r.cached_input_tokens)
        AS e(cost, saved, requests, errors, input_tokens, output_tokens, cached_input_tokens)
    ) c
  ), sums AS (
    SELECT p.tenant_id, p.dimension, p.grain, p.day::timestamp AT TIME ZONE 'UTC' AS day, sum(p.cost) AS cost,
      sum(p.saved) AS saved, sum(p.requests) AS requests, sum(p.errors) AS errors, sum(p.input_tokens) AS input_tokens,
      sum(p.output_tokens) AS output_tokens, sum(p.cached_input_tokens) AS cached_input_tokens, sum(p.calls) AS calls
    FROM parts p
    WHERE p.grain <> 'w' AND p.day >= (SELECT coalesce((min(r.day) AT TIME ZONE 'UTC')::date, 'infinity') FROM rows r)
    GROUP BY 1, 2, 3, 4
  ), weeks AS (
    SELECT p.tenant_id, p.dimension, usage_week(p.day) AS day, p.grain = 'w' AS is_week,
      ROW(sum(p.cost), sum(p.saved), sum(p.requests), sum(p.errors), sum(p.input_tokens), sum(p.output_tokens),
        sum(p.cached_input_tokens), sum(p.calls))::text AS sums
    FROM parts p WHERE p.grain IN ('d', 'w') GROUP BY 1, 2, 3, 4
  ), expected AS (
    SELECT r.*, u.dimension, g.grain::"char" AS grain FROM rows r JOIN used u ON u.tenant_id = r.tenant_id
    JOIN unnest('{d,h,q}'::text[]) AS g(grain) ON g.grain <> 'q' OR u.dimension = 0
  )
  SELECT 'the ledger and the rows', coalesce(e.tenant_id, r.tenant_id)::text, to_char(coalesce(e.day, r.day), 'YYYY-MM-DD'),
    coalesce(e.cost, 0)::text, coalesce(r.cost, 0)::text
  FROM entries e FULL JOIN spent r ON r.tenant_id = e.tenant_id AND r.day = e.day
  WHERE coalesce(e.cost, 0) <> coalesce(r.cost, 0)
  UNION ALL
  SELECT format('the rows and the roll-up %s%s', s.grain, s.dimension), s.tenant_id, to_char(s.day, 'YYYY-MM-DD'),
    s.wanted::text, s.found::text
  FROM (
    SELECT coalesce(x.grain, s.grain) AS grain, coalesce(x.dimension, s.dimension) AS dimension,
      coalesce(x.tenant_id, s.tenant_id)::text AS tenant_id, coalesce(x.day, s.day) AS day,
      ROW(x.cost, x.saved, x.requests, x.errors, x.input_tokens, x.output_tokens, x.cached_input_tokens,
        CASE WHEN x.grain <> 'q' THEN x.calls ELSE 0 END) AS wanted,
      ROW(s.cost, s.saved, s.requests, s.errors, s.input_tokens, s.output_tokens, s.cached_input_tokens, s.calls) AS found
    FROM expected x FULL JOIN sums s
      ON s.tenant_id = x.tenant_id AND s.day = x.day AND s.dimension = x.dimension AND s.grain = x.grain
  ) s WHERE s.wanted::text IS DISTINCT FROM s.found::text
    AND NOT EXISTS (SELECT FROM pending p WHERE p.tenant_id::text = s.tenant_id AND p.day = s.day)
  UNION ALL
  SELECT format('the days and the week of the roll-up %s', coalesce(d.dimension, w.dimension)),
    coalesce(d.tenant_id, w.tenant_id)::text, to_char(coalesce(d.day, w.day), 'YYYY-MM-DD'), d.sums, w.sums
  FROM (SELECT * FROM weeks WHERE NOT is_week) d FULL JOIN (SELECT * FROM weeks WHERE is_week) w
    ON w.tenant_id = d.tenant_id AND w.dimension = d.dimension AND w.day = d.day
  WHERE d.sums IS DISTINCT FROM w.sums
$$;

REVOKE ALL ON FUNCTION usage_differences FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_differences TO application_manager;
