-- The moment that usage is booked at which an event reports: when it happened, unless that is too long ago, in the future, or in
-- the range of a bill that was signed or is being made; then now. A bill that was begun a day ago was never made.
CREATE OR REPLACE FUNCTION usage_booked_at(tenant uuid, agent uuid, happened_at timestamptz, booked_from timestamptz,
  moment timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT CASE WHEN happened_at >= booked_from AND happened_at <= moment AND NOT EXISTS (
    SELECT FROM billing_closings c
    WHERE (c.tenant_id = tenant OR c.tenant_id IS NULL) AND (c.agent_id = agent OR c.agent_id IS NULL)
      AND c.opens <= happened_at AND c.closes > happened_at
      AND (c.signed_at IS NOT NULL OR c.begun_at > now() - interval '1 day'))
    THEN happened_at ELSE moment END
$$;

REVOKE ALL ON FUNCTION usage_booked_at FROM PUBLIC;
