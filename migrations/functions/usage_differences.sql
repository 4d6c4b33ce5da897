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
      sum(u.output_tokens) AS output_tokens, sum(u.cached_input_tokens) AS cached_input_tokens, count(u.bucket) AS calls
    FROM usage_facts u GROUP BY 1, 2
  ), entries AS (
    SELECT e.tenant_id, date_bin('1 day', e.occurred_at, 'epoch') AS day, sum(e.amount) AS cost
    FROM budget_entries e
    WHERE date_bin('1 day', e.occurred_at, 'epoch') >= (SELECT coalesce(min(r.day), 'infinity') FROM rows r)
    GROUP BY 1, 2
  ), sums AS (
    SELECT r.tenant_id, r.dimension, r.grain, date_bin('1 day', r.start, 'epoch') AS day, sum(r.cost) AS cost,
      sum(r.saved) AS saved, sum(r.requests) AS requests, sum(r.errors) AS errors, sum(r.input_tokens) AS input_tokens,
      sum(r.output_tokens) AS output_tokens, sum(r.cached_input_tokens) AS cached_input_tokens,
      coalesce(sum((SELECT sum(e & 4294967295) FROM unnest(r.latencies) e)), 0) AS calls
    FROM usage_rollups r WHERE date_bin('1 day', r.start, 'epoch') >= (SELECT coalesce(min(r.day), 'infinity') FROM rows r)
    GROUP BY 1, 2, 3, 4
  ), expected AS (
    SELECT r.*, d.dimension, d.grain FROM rows r CROSS JOIN (
      SELECT n::smallint AS dimension, g::"char" AS grain FROM generate_series(0, 8) n CROSS JOIN unnest('{d,h}'::text[]) g
      UNION ALL SELECT 0::smallint, 'q'::"char") d
  )
  SELECT 'the ledger and the rows', coalesce(e.tenant_id, r.tenant_id)::text, to_char(coalesce(e.day, r.day), 'YYYY-MM-DD'),
    coalesce(e.cost, 0)::text, coalesce(r.cost, 0)::text
  FROM entries e FULL JOIN rows r ON r.tenant_id = e.tenant_id AND r.day = e.day
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
$$;

REVOKE ALL ON FUNCTION usage_differences FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_differences TO application_manager;
