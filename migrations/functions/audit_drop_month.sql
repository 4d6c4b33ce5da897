-- The application role owns no table, so retention needs this function. It drops the entries and links of one month, if
-- the month ended long enough ago, all of its entries are linked, and a signed checkpoint and a signed retirement
-- exist.
CREATE OR REPLACE FUNCTION audit_drop_month(month_to_drop text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  entries text := 'audit_entries_' || replace(month_to_drop, '-', '_');
  links text := 'audit_links_' || replace(month_to_drop, '-', '_');
  last bigint;
  linked bigint;
  present bigint;
BEGIN
  IF month_to_drop !~ '^[0-9]{4}-[0-9]{2}$'
    OR (to_date(month_to_drop, 'YYYY-MM') + interval '1 month') AT TIME ZONE 'UTC' > now() - interval '1 day' THEN
    RAISE EXCEPTION 'The month % is not over', month_to_drop USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  EXECUTE format('SELECT coalesce(max(sequence), 0), count(*) FROM public.%I', links) INTO last, linked;
  EXECUTE format('SELECT count(*) FROM public.%I', entries) INTO present;
  IF present <> linked THEN
    RAISE EXCEPTION 'The month % has % entries and % links', month_to_drop, present, linked
      USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  IF linked > 0 AND NOT EXISTS (SELECT FROM public.audit_checkpoints c WHERE c.sequence >= last) THEN
    RAISE EXCEPTION 'No checkpoint covers the month %', month_to_drop
      USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  IF linked > 0 AND NOT EXISTS (
    SELECT FROM public.audit_retirements r WHERE r.month = month_to_drop AND r.last_sequence = last) THEN
    RAISE EXCEPTION 'No retirement of the month % is signed', month_to_drop
      USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  EXECUTE format('DROP TABLE public.%I', links);
  EXECUTE format('DROP TABLE public.%I', entries);
END
$$;

REVOKE ALL ON FUNCTION audit_drop_month FROM PUBLIC;
GRANT EXECUTE ON FUNCTION audit_drop_month TO application_manager;
