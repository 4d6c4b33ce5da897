CREATE OR REPLACE FUNCTION audit_make_link_partitions(first_month timestamptz, months integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  month timestamp := date_trunc('month', first_month AT TIME ZONE 'UTC');
  partition text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('audit_make_link_partitions'));
  FOR i IN 0..months - 1 LOOP
    partition := 'audit_links_' || to_char(month, 'YYYY_MM');
    IF to_regclass('public.' || partition) IS NULL THEN
      BEGIN
        EXECUTE format(
          'CREATE TABLE public.%I PARTITION OF public.audit_links FOR VALUES FROM (%L) TO (%L)',
          partition, month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
        EXECUTE format('REVOKE ALL ON public.%I FROM application_manager', partition);
        EXECUTE format(
          'CREATE TRIGGER audit_links_no_truncate BEFORE TRUNCATE ON public.%I
           FOR EACH STATEMENT EXECUTE FUNCTION public.audit_refuse_change()', partition);
      EXCEPTION WHEN check_violation THEN
        -- The default partition has links of this month already: it keeps the whole month.
        NULL;
      END;
    END IF;
    month := month + interval '1 month';
  END LOOP;
END
$$;

REVOKE ALL ON FUNCTION audit_make_link_partitions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION audit_make_link_partitions TO application_manager;
