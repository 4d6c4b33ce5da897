-- Whether a moment is in the range of a bill of a tenant and agent that was signed or is being made. A bill that was begun a
-- day ago was never made.
CREATE OR REPLACE FUNCTION usage_is_billed(tenant uuid, agent uuid, at timestamptz) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT EXISTS (
    SELECT FROM billing_closings c
    WHERE (c.tenant_id = tenant OR c.tenant_id IS NULL) AND (c.agent_id = agent OR c.agent_id IS NULL)
      AND c.opens <= at AND c.closes > at
      AND (c.signed_at IS NOT NULL OR c.begun_at > now() - interval '1 day'))
$$;

REVOKE ALL ON FUNCTION usage_is_billed FROM PUBLIC;
