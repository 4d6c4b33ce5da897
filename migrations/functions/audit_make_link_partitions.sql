CREATE OR REPLACE FUNCTION audit_make_link_partitions(first_month timestamptz, months integer) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT make_month_partitions('audit_links', first_month, months)
$$;

REVOKE ALL ON FUNCTION audit_make_link_partitions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION audit_make_link_partitions TO application_manager;
