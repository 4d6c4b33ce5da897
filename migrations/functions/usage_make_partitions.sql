CREATE OR REPLACE FUNCTION usage_make_partitions(first_month timestamptz, months integer) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT make_month_partitions('usage_rows', first_month, months)
$$;

REVOKE ALL ON FUNCTION usage_make_partitions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_make_partitions TO application_manager;
