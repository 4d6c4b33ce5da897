-- The capabilities that a principal used since a moment.
CREATE OR REPLACE FUNCTION capabilities_used(by text, since timestamptz) RETURNS TABLE (used text[])
LANGUAGE sql STABLE AS $$
  SELECT ARRAY(SELECT u.capability FROM public.capability_uses u
    WHERE u.principal = by AND u.last_used_at > since ORDER BY u.capability)
$$;

REVOKE ALL ON FUNCTION capabilities_used FROM PUBLIC;
GRANT EXECUTE ON FUNCTION capabilities_used TO application_manager;
