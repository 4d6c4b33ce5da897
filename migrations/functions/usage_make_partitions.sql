CREATE OR REPLACE FUNCTION usage_make_partitions(first_month timestamptz, months integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  month timestamp := date_trunc('month', first_month AT TIME ZONE 'UTC');
  partition text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('usage_make_partitions'));
  FOR i IN 0..months - 1 LOOP
    partition := 'usage_rows_' || to_char(month, 'YYYY_MM');
    IF to_regclass('public.' || partition) IS NULL THEN
      BEGIN
        EXECUTE format(
          'CREATE TABLE public.%I PARTITION OF public.usage_rows FOR VALUES FROM (%L) TO (%L)',
          partition, month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
        -- Policies of the table do not apply to a statement that names a partition.
        EXECUTE format('REVOKE ALL ON public.%I FROM application_manager', partition);
        EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', partition);
        EXECUTE format('CREATE POLICY usage_rows_of_tenant ON public.%I USING (sees_tenant(tenant_id))', partition);
      EXCEPTION WHEN check_violation THEN
        -- The default partition has rows of this month already: it keeps the whole month.
        NULL;
      END;
    END IF;
    month := month + interval '1 month';
  END LOOP;
END
$$;

REVOKE ALL ON FUNCTION usage_make_partitions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_make_partitions TO application_manager;
