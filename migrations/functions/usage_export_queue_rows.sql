-- Puts what left the outbox into the queue of the export of usage, where there is an export.
CREATE OR REPLACE FUNCTION usage_export_queue_rows() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  IF EXISTS (SELECT FROM usage_export) THEN
    INSERT INTO usage_export_queue (batch, tenant_id, occurred_at)
    SELECT l.batch, l.tenant_id, l.occurred_at FROM left_rows l ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END
$$;

REVOKE ALL ON FUNCTION usage_export_queue_rows FROM PUBLIC;
