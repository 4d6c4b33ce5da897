-- The principals whose name has the pattern and that the transaction may see, some of each kind among the first 2000 of all
-- tenants; none where so many names have it that it names none. Row-level security is checked before a comparison of texts, and so without the index.
CREATE OR REPLACE FUNCTION search_principals(pattern text, most integer) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  seen text := current_setting('app.tenant_id', true);
  kind record;
BEGIN
  -- The index has no shorter words.
  IF pattern !~ '[a-z0-9]{3}' THEN
    RETURN;
  END IF;
  FOR kind IN SELECT * FROM (VALUES ('account:', 'accounts'), ('agent:', 'agents'), ('api-key:', 'api_keys')) k (prefix, list) LOOP
    CONTINUE WHEN search_estimate(kind.list, pattern) > 2000;
    RETURN QUERY EXECUTE format('SELECT %L || id FROM (SELECT id, tenant_id FROM public.%I WHERE search_text LIKE %L LIMIT 2000) m
      WHERE %s LIMIT %s', kind.prefix, kind.list, pattern, CASE seen WHEN '*' THEN 'true' ELSE format('tenant_id = nullif(%L, '''')::uuid', coalesce(seen, '')) END, most);
  END LOOP;
END
$$;

REVOKE ALL ON FUNCTION search_principals FROM PUBLIC;
GRANT EXECUTE ON FUNCTION search_principals TO application_manager;
