-- Makes partitions of a table for so many months, the first that of a moment, and closes them. Those that exist stay.
CREATE OR REPLACE FUNCTION make_month_partitions(parent text, first_month timestamptz, months integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
DECLARE
  month timestamp := date_trunc('month', first_month AT TIME ZONE 'UTC');
  partition text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('make_month_partitions ' || parent));
  FOR i IN 0..months - 1 LOOP
    partition := parent || to_char(month, '_YYYY_MM');
    IF to_regclass('public.' || partition) IS NULL THEN
      BEGIN
        EXECUTE format(
          'CREATE TABLE public.%I PARTITION OF public.%I FOR VALUES FROM (%L) TO (%L)',
          partition, parent, month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
        PERFORM audit_close_partition(partition);
      EXCEPTION WHEN check_violation THEN
        -- The default partition has rows of this month already: it keeps the whole month.
        NULL;
      END;
    END IF;
    month := month + interval '1 month';
  END LOOP;
END
$$;

REVOKE ALL ON FUNCTION make_month_partitions FROM PUBLIC;
