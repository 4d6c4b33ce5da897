-- Whether a request is an approval of what is held, rather than for a reservation. Without settings of its own it is inlined.
CREATE OR REPLACE FUNCTION budget_is_approval(kind text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT kind NOT IN ('reserve', 'try')
$$;

REVOKE ALL ON FUNCTION budget_is_approval FROM PUBLIC;
