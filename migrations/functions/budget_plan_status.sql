-- The status of a plan at a moment, even if the sweeper has not updated the row yet.
CREATE OR REPLACE FUNCTION budget_plan_status(status text, heartbeat_by timestamptz, dead_at timestamptz, moment timestamptz)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
  SELECT CASE
    WHEN status NOT IN ('active', 'suspended') THEN status
    WHEN dead_at <= moment THEN 'expired'
    WHEN heartbeat_by <= moment THEN 'suspended'
    ELSE status END
$$;

REVOKE ALL ON FUNCTION budget_plan_status FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_plan_status TO application_manager;
