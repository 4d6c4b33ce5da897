-- Whether a counter has as much left. Without settings of its own it is inlined.
CREATE OR REPLACE FUNCTION budget_has_room(state budget_counter_state, need bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT need <= state.limit_amount - (state.spent + state.reserved)
$$;

REVOKE ALL ON FUNCTION budget_has_room FROM PUBLIC;
