-- Whether a principal that made something can still act; null for a kind that is not known here.
CREATE OR REPLACE FUNCTION principal_lives(principal text, at timestamptz) RETURNS TABLE (lives boolean)
LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN principal = 'service-account' THEN true
    WHEN principal LIKE 'account:%' THEN (SELECT a.lives FROM public.account_lives(substr(principal, 9)) a)
    WHEN principal LIKE 'api-key:%' OR principal LIKE 'synthetic:%' THEN EXISTS (
      SELECT FROM public.api_keys k WHERE k.id = public.uuid_or_null(split_part(principal, ':', 2)) AND k.revoked_at IS NULL
        AND (k.expires_at IS NULL OR k.expires_at > at)) END
$$;

REVOKE ALL ON FUNCTION principal_lives FROM PUBLIC;
GRANT EXECUTE ON FUNCTION principal_lives TO application_manager;
