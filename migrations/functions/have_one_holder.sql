-- Whether the same party may be behind two principals: one holds the other, over any number of steps, or a third holds both.
-- That the service account or the service itself made both says nothing.
CREATE OR REPLACE FUNCTION have_one_holder(one text, other text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  WITH RECURSIVE holders (root, name) AS (
    VALUES (1, one), (2, other)
    UNION
    SELECT h.root, p.holder FROM holders h JOIN public.principal_holders p ON p.principal = h.name
  )
  SELECT EXISTS (
    SELECT FROM holders a JOIN holders b USING (name)
    WHERE a.root = 1 AND b.root = 2 AND (name NOT IN ('service-account', 'system') OR name IN (one, other)))
$$;

REVOKE ALL ON FUNCTION have_one_holder FROM PUBLIC;
GRANT EXECUTE ON FUNCTION have_one_holder TO application_manager;
