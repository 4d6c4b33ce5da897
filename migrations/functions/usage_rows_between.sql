-- The usage rows in the segments of grain r, and the synthetic ones in those of grain s, with their keys; the arguments are
-- those of usage_rows_sums, and the bounds of these segments; an empty filter passes rows without a value. A function in SQL
-- without settings becomes part of the statement that calls it, and its planner leaves out the kind of rows and the partitions
-- that no segment has.
CREATE OR REPLACE FUNCTION usage_rows_between(tenants uuid[], dimension integer, group_by text, filter text[],
  wanted text[], grains text[], opens timestamptz[], closes timestamptz[], cuts timestamptz[], rows_from timestamptz,
  rows_to timestamptz)
RETURNS TABLE (key text, place integer, cost bigint, requests integer, errors integer, input_tokens bigint,
  output_tokens bigint, cached_input_tokens bigint, saved bigint, bucket integer)
LANGUAGE sql STABLE AS $$
  SELECT k.key, width_bucket(u.occurred_at, cuts) - 1, u.cost, u.requests, u.errors, u.input_tokens, u.output_tokens,
    u.cached_input_tokens, u.saved, u.bucket
  FROM (
    SELECT t.id, g.grain, g.opens, g.closes FROM unnest(grains, opens, closes) AS g(grain, opens, closes)
    CROSS JOIN unnest(tenants) AS t(id) WHERE g.grain IN ('r', 's') OFFSET 0
  ) g
  CROSS JOIN LATERAL (
    SELECT * FROM usage_sources u WHERE u.grain = g.grain AND u.grain = ANY (grains)
      AND u.tenant_id = g.id AND u.occurred_at >= g.opens AND u.occurred_at < g.closes
      AND u.occurred_at >= rows_from AND u.occurred_at < rows_to
      AND (filter[1] IS NULL OR u.agent_id IS NOT DISTINCT FROM nullif(filter[1], '')::uuid)
      AND (filter[2] IS NULL OR u.model IS NOT DISTINCT FROM nullif(filter[2], ''))
      AND (filter[3] IS NULL OR u.provider IS NOT DISTINCT FROM nullif(filter[3], ''))
      AND (filter[4] IS NULL OR u.task_type IS NOT DISTINCT FROM nullif(filter[4], ''))
      AND (filter[5] IS NULL OR u.application_id IS NOT DISTINCT FROM nullif(filter[5], '')::integer)
      AND (filter[6] IS NULL OR u.plan_id IS NOT DISTINCT FROM nullif(filter[6], '')::uuid)
      AND (filter[7] IS NULL OR u.user_id IS NOT DISTINCT FROM nullif(filter[7], ''))
      AND (filter[8] IS NULL OR u.api_key_id IS NOT DISTINCT FROM nullif(filter[8], '')::uuid) OFFSET 0
  ) u
  CROSS JOIN LATERAL (
    SELECT CASE group_by WHEN 'total' THEN '' WHEN 'tenant' THEN u.tenant_id::text
      ELSE coalesce(CASE usage_rows_between.dimension WHEN 1 THEN u.agent_id::text WHEN 2 THEN u.model WHEN 3 THEN u.provider
      WHEN 4 THEN u.task_type WHEN 5 THEN u.application_id::text WHEN 6 THEN u.plan_id::text WHEN 7 THEN u.user_id
      WHEN 8 THEN u.api_key_id::text END, '') END AS key
  ) k
  WHERE wanted IS NULL OR k.key IN (SELECT unnest(wanted))
$$;

REVOKE ALL ON FUNCTION usage_rows_between FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_rows_between TO application_manager;
