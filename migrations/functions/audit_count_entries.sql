-- All entries but those that may wait for their link: of transactions that the head does not see yet. A number that this
-- server has not come to is no reason to wait, unless the database has just been restored from another one.
CREATE OR REPLACE FUNCTION audit_count_entries(linked pg_snapshot, head bigint) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT (SELECT count(*) FROM public.audit_entries) - (
    SELECT count(*) FROM public.audit_entries e
    WHERE e.transaction_id >= pg_snapshot_xmin(linked)
      AND (e.transaction_id < pg_snapshot_xmax(pg_current_snapshot()) OR linked::text = '3:3:')
      AND NOT pg_visible_in_snapshot(e.transaction_id, linked)
      AND NOT EXISTS (SELECT FROM public.audit_links l
        WHERE l.entry_id = e.id AND l.occurred_at = e.occurred_at AND l.sequence <= head))
$$;

REVOKE ALL ON FUNCTION audit_count_entries FROM PUBLIC;
GRANT EXECUTE ON FUNCTION audit_count_entries TO application_manager;
