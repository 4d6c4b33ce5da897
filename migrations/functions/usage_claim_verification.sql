-- Whether the caller is to verify the roll-ups of usage, which was not done within a day.
CREATE OR REPLACE FUNCTION usage_claim_verification() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  UPDATE usage_verification SET claimed_at = now() WHERE claimed_at < now() - interval '24 hours';
  RETURN FOUND;
END
$$;

REVOKE ALL ON FUNCTION usage_claim_verification FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_claim_verification TO application_manager;
