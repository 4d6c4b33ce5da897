-- Counts all entries except those that may still be unlinked, of transactions that the head's snapshot does not see
-- yet. An entry with a transaction id that this server has not reached is counted, unless the database has just been
-- restored from another server.
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
