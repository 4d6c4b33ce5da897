-- The owner of caps over all tenants, and of their counters: tenants' ids are never nil. Without settings of its own it is
-- inlined.
CREATE OR REPLACE FUNCTION all_tenants() RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT '00000000-0000-0000-0000-000000000000'::uuid
$$;

REVOKE ALL ON FUNCTION all_tenants FROM PUBLIC;
GRANT EXECUTE ON FUNCTION all_tenants TO application_manager;
