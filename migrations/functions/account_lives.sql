-- Whether an id is that of an active account; null where there is no id.
CREATE OR REPLACE FUNCTION account_lives(id text) RETURNS TABLE (lives boolean)
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN account_lives.id IS NOT NULL THEN EXISTS (
    SELECT FROM public.accounts a WHERE a.id = public.uuid_or_null(account_lives.id) AND a.status = 'active') END
$$;

REVOKE ALL ON FUNCTION account_lives FROM PUBLIC;
GRANT EXECUTE ON FUNCTION account_lives TO application_manager;
