-- Refuses a reservation that is settled without a charge, or has a charge and is not settled.
CREATE OR REPLACE FUNCTION budget_guard_reservation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.state = 'settled') = (NEW.charge_id IS NOT NULL) THEN RETURN NEW; END IF;
  RAISE EXCEPTION 'reservation % breaks an invariant', NEW.id USING ERRCODE = 'check_violation';
END
$$;

REVOKE ALL ON FUNCTION budget_guard_reservation FROM PUBLIC;
