-- The remaining budget of a plan, which it reserves on its caps; zero once the plan has ended.
CREATE OR REPLACE FUNCTION budget_plan_rest(status text, budget bigint, spent bigint, reserved bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
  SELECT CASE WHEN status IN ('active', 'suspended') THEN greatest(budget - spent - reserved, 0) ELSE 0 END
$$;

REVOKE ALL ON FUNCTION budget_plan_rest FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_plan_rest TO application_manager;
