-- Writes so many calls of a day, with the entries of the ledger and the roll-ups: more on working days and in working hours,
-- few agents with most of the calls, sizes that are log-normal, failures, refunds, and the anomalies of
-- usage_generate_labels. The same seed writes the same day.
CREATE OR REPLACE FUNCTION usage_generate_day(day date, calls integer, first date, days integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public SET work_mem = '128MB' SET synchronous_commit = off AS $$
DECLARE
  opens timestamptz := day::timestamp AT TIME ZONE 'UTC';
  written_by bigint := nextval('usage_batches');
  -- No batch has a charge and its refund: a row is named by its batch and its charge.
  refunded_by bigint := nextval('usage_batches');
BEGIN
  PERFORM setseed(((day - '2000-01-01'::date) % 1000) / 1000.0);
  WITH agent AS MATERIALIZED (
    SELECT a.id, a.tenant_id, (row_number() OVER (ORDER BY a.name, t.slug) - 1)::integer AS place, count(*) OVER () AS of
    FROM agents a JOIN tenants t ON t.id = a.tenant_id WHERE a.description = 'Generated'
  ), model AS MATERIALIZED (
    SELECT m.*, jsonb_build_object('input', m.input::text, 'cacheRead', (m.input / 10)::text, 'cacheWrite', m.input::text,
        'cacheWrite1h', m.input::text, 'output', m.output::text, 'reasoning', m.output::text) AS rates
    FROM (VALUES (0, 'gpt-5', 'openai', 1250000000, 10000000000), (1, 'gpt-5-mini', 'openai', 250000000, 2000000000),
      (2, 'claude-opus-4-5', 'anthropic', 5000000000, 25000000000), (3, 'claude-sonnet-4-5', 'anthropic', 3000000000, 15000000000),
      (4, 'claude-haiku-4-5', 'anthropic', 1000000000, 5000000000), (5, 'gemini-2.5-pro', 'google', 1250000000, 10000000000),
      (6, 'llama-3.3-70b', 'vllm', 200000000, 600000000)) AS m(place, name, provider, input, output)
  ), drawn AS MATERIALIZED (
    SELECT g, power(random(), 1.8) AS of_agents, random() AS of_models, random() AS of_hours, random() AS of_rest,
      random() AS of_ends, random() AS of_users,
      sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) AS size, sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) AS answer
    FROM generate_series(1, calls) g
  ), placed AS MATERIALIZED (
    SELECT d.*, a.id AS agent_id, a.tenant_id, a.place, m.name AS model, m.provider, m.input, m.output, m.rates,
      date_trunc('milliseconds', opens + make_interval(secs => 3600 * (h.hour + d.of_rest))) AS at
    FROM drawn d
    JOIN agent a ON a.place = floor(d.of_agents * a.of)::integer
    JOIN model m ON m.place = (a.place + CASE WHEN d.of_models < 0.75 THEN 0 ELSE floor(d.of_models * 40)::integer END) % 7
    CROSS JOIN LATERAL (SELECT width_bucket(d.of_hours, '{0,0.015,0.03,0.04,0.05,0.06,0.075,0.11,0.17,0.25,0.33,0.41,0.48,
      0.55,0.63,0.71,0.79,0.85,0.89,0.92,0.945,0.965,0.98,0.99}'::double precision[]) - 1 AS hour) h
  ), sized AS MATERIALIZED (
    SELECT p.*, coalesce(l.factor, 1) AS factor, (exp(9 + 0.9 * p.size) * coalesce(l.factor, 1))::bigint AS input_tokens,
      CASE WHEN p.of_ends < 0.02 THEN 0 ELSE (exp(6 + 0.8 * p.answer) * coalesce(l.factor, 1))::bigint END AS output_tokens
    FROM placed p LEFT JOIN usage_generate_labels(first, days) l
      ON l.agent_place = p.place AND p.at >= l.opens AND p.at < l.closes
  ), used AS (
    INSERT INTO usage_rows (tenant_id, reservation_id, charge_id, agent_id, occurred_at, batch, cost, saved, input_tokens,
      output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, latency_ms, upstream_latency_ms, status,
      error, method, created_by, user_id, task_type, operation, dialect, model, provider, rates)
    SELECT s.tenant_id, new_id(), new_id(), s.agent_id, s.at, written_by,
      ceil((s.input_tokens - c.cached) * s.input / 1e6)::bigint + ceil(c.cached * (s.input / 10) / 1e6)::bigint
        + ceil(s.output_tokens * s.output / 1e6)::bigint,
      floor(c.cached * (s.input - s.input / 10) / 1e6)::bigint, s.input_tokens, s.output_tokens, c.cached, 0, 0,
      (250 + s.output_tokens * 12 * exp(0.3 * s.size))::bigint, (240 + s.output_tokens * 12 * exp(0.3 * s.size))::bigint,
      CASE WHEN s.of_ends < 0.015 THEN 500 WHEN s.of_ends < 0.02 THEN 429 WHEN s.of_ends < 0.027 THEN 499 ELSE 200 END,
      CASE WHEN s.of_ends < 0.015 THEN '{"code":"server_error","message":"The provider answered with status 500."}'::jsonb
        WHEN s.of_ends < 0.02 THEN '{"code":"rate_limit_exceeded","message":"The provider''s rate limit is reached."}'
        WHEN s.of_ends < 0.027 THEN
          '{"code":"client-closed-request","message":"The caller closed the connection before the answer was complete."}'
      END,
      CASE WHEN s.of_ends < 0.02 THEN 'estimated' WHEN s.of_ends < 0.027 THEN 'aborted' ELSE 'provider_usage' END,
      'agent', 'user-' || floor(power(s.of_users, 2) * 300),
      (ARRAY['research', 'triage', 'extraction', 'review', 'summarize', 'translate'])[1 + s.place % 6], 'chat', 'openai-chat',
      s.model, s.provider, s.rates
    FROM sized s CROSS JOIN LATERAL (
      SELECT CASE WHEN s.of_models > 0.6 THEN (s.input_tokens * 0.6)::bigint ELSE 0 END AS cached) c
    ORDER BY s.at
    RETURNING tenant_id, reservation_id, charge_id, occurred_at, cost, input_tokens + output_tokens AS tokens,
      agent_id, user_id, task_type, model, provider
  ), refunded AS (
    INSERT INTO usage_rows (tenant_id, reservation_id, charge_id, agent_id, occurred_at, batch, cost, method, created_by,
      user_id, task_type, operation, dialect, model, provider)
    SELECT u.tenant_id, u.reservation_id, u.charge_id, u.agent_id, opens + interval '23 hours 59 minutes', refunded_by,
      -(u.cost / 2), 'refunded', 'system', u.user_id, u.task_type, 'chat', 'openai-chat', u.model, u.provider
    FROM used u WHERE u.cost > 1 AND hashtext(u.charge_id::text) % 500 = 0
    RETURNING tenant_id, reservation_id, charge_id, occurred_at, cost
  )
  INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, occurred_at,
    created_by, counter_ids, buckets)
  SELECT u.tenant_id, u.charge_id, u.reservation_id, 'charge', u.charge_id, u.cost, u.tokens, 1, u.occurred_at, 'agent:' || u.agent_id,
    '{}'::uuid[], '{}'::bigint[] FROM used u
  UNION ALL
  SELECT r.tenant_id, new_id(), r.reservation_id, 'refund', r.charge_id, r.cost, 0, 0, r.occurred_at, 'system', '{}'::uuid[], '{}'::bigint[]
  FROM refunded r;
  -- The rows of others come to the export of usage by the outbox, which these never were in.
  IF EXISTS (SELECT FROM usage_export) THEN
    INSERT INTO usage_export_queue (batch, tenant_id, occurred_at)
    SELECT DISTINCT batch, tenant_id, occurred_at FROM usage_rows
    WHERE occurred_at >= opens AND occurred_at < opens + interval '1 day' AND batch IN (written_by, refunded_by);
  END IF;
  RETURN usage_rebuild(day);
END
$$;

REVOKE ALL ON FUNCTION usage_generate_day FROM PUBLIC;
