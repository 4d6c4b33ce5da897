-- Drops the months of usage rows that ended so many days ago, by the earlier of two clocks; roll-ups stay. A month with rows
-- that are still to be exported stays, too. The application role owns no table, so retention needs this function. Answers the
-- months.
CREATE OR REPLACE FUNCTION usage_drop_months(days integer, moment timestamptz) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public SET lock_timeout = '500ms' AS $$
DECLARE
  months text[];
  dropped text[] := '{}';
  month text;
BEGIN
  IF days < 1 OR NOT pg_try_advisory_xact_lock(hashtext('usage-retention')) THEN RETURN '{}'; END IF;
  SELECT coalesce(array_agg(m.month ORDER BY m.month), '{}') INTO months FROM (
    SELECT right(inhrelid::regclass::text, 7) AS month FROM pg_inherits WHERE inhparent = 'usage_rows'::regclass
  ) m WHERE CASE WHEN m.month ~ '^[0-9]{4}_[0-9]{2}$'
    THEN (to_date(m.month, 'YYYY_MM') + interval '1 month') AT TIME ZONE 'UTC'
      <= least(moment, now()) - days * interval '24 hours' END;
  FOREACH month IN ARRAY months LOOP
    CONTINUE WHEN usage_export_needs(to_date(month, 'YYYY_MM')::timestamp AT TIME ZONE 'UTC',
      (to_date(month, 'YYYY_MM') + interval '1 month') AT TIME ZONE 'UTC');
    dropped := dropped || month;
    EXECUTE format('DROP TABLE public.%I', 'usage_rows_' || month);
  END LOOP;
  RETURN dropped;
END
$$;

REVOKE ALL ON FUNCTION usage_drop_months FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_drop_months TO application_manager;
