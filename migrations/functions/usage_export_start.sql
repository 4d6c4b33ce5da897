-- Starts the export of usage where there is none. No fold is under way meanwhile, so a row either left the outbox before, and
-- comes into the queue with its hour, or leaves it later, and comes by the trigger. A replica that began before the export was
-- ended starts none: it still has the settings of before.
CREATE OR REPLACE FUNCTION usage_export_start(replica_began timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  IF EXISTS (SELECT FROM usage_export) OR
    EXISTS (SELECT FROM installation WHERE name = 'usage-export-ended' AND created_at >= replica_began)
  THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('usage-fold'));
  INSERT INTO usage_export (first_batch, history_from) VALUES (nextval('usage_batches'), '-infinity') ON CONFLICT DO NOTHING;
END
$$;

REVOKE ALL ON FUNCTION usage_export_start FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_export_start TO application_manager;
