-- Whether a counter can hold as much, whatever its cap allows. Without settings of its own it is inlined.
CREATE OR REPLACE FUNCTION budget_can_count(state budget_counter_state, need bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT need <= 9223372036854775807 - (state.spent + state.reserved)
$$;

REVOKE ALL ON FUNCTION budget_can_count FROM PUBLIC;
