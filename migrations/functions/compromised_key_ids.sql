CREATE OR REPLACE FUNCTION compromised_key_ids() RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT ARRAY(SELECT key_id FROM public.attestation_keys WHERE purpose = 'sign-tokens' AND status = 'compromised')
$$;

REVOKE ALL ON FUNCTION compromised_key_ids FROM PUBLIC;
GRANT EXECUTE ON FUNCTION compromised_key_ids TO application_manager;
