-- Whether copies of these tenants' caps are current: `revision` is the sum of theirs, which only grow.
CREATE OR REPLACE FUNCTION budget_is_current(tenants uuid[], revision bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public AS $$
BEGIN
  RETURN revision = (SELECT coalesce(sum(k.caps_version), 0) FROM budget_books k WHERE k.tenant_id = ANY (tenants));
END
$$;

REVOKE ALL ON FUNCTION budget_is_current FROM PUBLIC;
