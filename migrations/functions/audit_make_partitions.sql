CREATE OR REPLACE FUNCTION audit_make_partitions(first_month timestamptz, months integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  month timestamp := date_trunc('month', first_month AT TIME ZONE 'UTC');
  partition text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('audit_make_partitions'));
  FOR i IN 0..months - 1 LOOP
    partition := 'audit_entries_' || to_char(month, 'YYYY_MM');
    IF to_regclass('public.' || partition) IS NULL THEN
      BEGIN
        EXECUTE format(
          'CREATE TABLE public.%I PARTITION OF public.audit_entries FOR VALUES FROM (%L) TO (%L)',
          partition, month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
        PERFORM audit_close_partition(partition);
      EXCEPTION WHEN check_violation THEN
        -- The default partition has entries of this month already: it keeps the whole month.
        NULL;
      END;
    END IF;
    month := month + interval '1 month';
  END LOOP;
END
$$;
