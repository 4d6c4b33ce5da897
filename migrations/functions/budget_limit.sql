-- The effective limit of a counter: its cap's limit plus its active grants, at most the largest bigint.
CREATE OR REPLACE FUNCTION budget_limit(tenant uuid, cap uuid, key text, moment timestamptz) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT least(9223372036854775807, c.limit_amount + coalesce((
    SELECT sum(g.amount) FROM budget_grants g
    WHERE g.tenant_id = tenant AND g.cap_id = cap AND g.ended_at IS NULL
      AND (g.expires_at IS NULL OR g.expires_at > moment)
      AND (g.counter_key IS NULL OR g.counter_key = key)), 0))::bigint
  FROM budget_caps c WHERE c.tenant_id = tenant AND c.id = cap
$$;

REVOKE ALL ON FUNCTION budget_limit FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_limit TO application_manager;
