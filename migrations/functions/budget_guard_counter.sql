-- Refuses a counter that breaks an invariant. A sum that bigint cannot hold is an error of its own, so that what is
-- reserved can always be spent. It is run by updates that name `spent`: one that only raises `reserved` names both.
CREATE OR REPLACE FUNCTION budget_guard_counter() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.spent + NEW.reserved >= 0 AND NEW.period_start < NEW.period_end
    AND (NEW.bucket_seconds IS NULL) = (NEW.ring IS NULL) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'counter % breaks an invariant', NEW.id USING ERRCODE = 'check_violation';
END
$$;

REVOKE ALL ON FUNCTION budget_guard_counter FROM PUBLIC;
