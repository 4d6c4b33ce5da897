-- What agents were charged in the 30 days before a moment; nothing unless it is asked for.
CREATE OR REPLACE FUNCTION agent_spend(at timestamptz, is_asked boolean) RETURNS TABLE (tenant_id uuid, agent text, cost bigint)
LANGUAGE sql STABLE AS $$
  SELECT r.tenant_id, e.key, sum(e.cost)::bigint
  FROM public.usage_rollups r CROSS JOIN LATERAL unnest(r.keys, r.cost) AS e(key, cost)
  WHERE is_asked AND r.dimension = 1 AND r.grain = 'd' AND r.day > (at - interval '30 days')::date
  GROUP BY r.tenant_id, e.key
$$;

REVOKE ALL ON FUNCTION agent_spend FROM PUBLIC;
GRANT EXECUTE ON FUNCTION agent_spend TO application_manager;
