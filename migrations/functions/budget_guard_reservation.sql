-- Whether a reservation has a charge exactly where it is settled. A check of a table calls it, as the text of a call is
-- shorter than that of what it checks, and a trigger for each row costs more in large batches.
CREATE OR REPLACE FUNCTION budget_guard_reservation(state budget_reservation_state, charge_id uuid) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN (state = 'settled') = (charge_id IS NOT NULL);
END
$$;

REVOKE ALL ON FUNCTION budget_guard_reservation FROM PUBLIC;
