-- The level of what a counter has spent of the limit of its cap; a cap without a limit is used up by anything. None for a
-- counter that has no such limit: of a rolling window, whose use changes without a charge, and of a plan.
CREATE OR REPLACE FUNCTION budget_counter_level(spent bigint, cap_limit bigint) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT public.budget_use_level(
    CASE WHEN cap_limit > 0 THEN spent::double precision / cap_limit WHEN cap_limit = 0 AND spent > 0 THEN 1 END)
$$;

REVOKE ALL ON FUNCTION budget_counter_level FROM PUBLIC;
