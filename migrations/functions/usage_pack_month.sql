-- Rebuilds an index of a month of usage rows that is over, and answers its name; null where none takes more space than it
-- needs. Rows come in the order of times and an index begins with the tenant, so its pages split in the middle and stay
-- half empty. Reports wait meanwhile, about a second for a million rows.
CREATE OR REPLACE FUNCTION usage_pack_month() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public SET lock_timeout = '500ms' AS $$
DECLARE
  bytes_needed CONSTANT integer := 48;
  loose text;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('usage-retention')) THEN RETURN NULL; END IF;
  SELECT i.oid::regclass::text INTO loose
  FROM pg_inherits m JOIN pg_index x ON x.indrelid = m.inhrelid
  JOIN pg_class i ON i.oid = x.indexrelid AND i.relam = (SELECT oid FROM pg_am WHERE amname = 'btree')
  CROSS JOIN LATERAL (SELECT right(m.inhrelid::regclass::text, 7) AS month) n
  WHERE m.inhparent = 'usage_rows'::regclass AND CASE WHEN n.month ~ '^[0-9]{4}_[0-9]{2}$'
      THEN (to_date(n.month, 'YYYY_MM') + interval '1 month') AT TIME ZONE 'UTC' < now() - interval '1 day' END
    AND i.reltuples > 0 AND pg_relation_size(i.oid) > bytes_needed * i.reltuples + 65536
  ORDER BY n.month LIMIT 1;
  IF loose IS NOT NULL THEN EXECUTE format('REINDEX INDEX %s', loose); END IF;
  RETURN loose;
END
$$;

REVOKE ALL ON FUNCTION usage_pack_month FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_pack_month TO application_manager;
