-- Adds a part with the sums of the oldest batches to the roll-ups, and deletes the batches from the outbox in the same
-- transaction. Parts that have become many become one. Under load many rows at a time cost each of them less, so where many
-- batches wait and none for `rest`, this leaves them. One caller at a time folds, rebuilds or verifies; the others return at
-- once with -1.
CREATE OR REPLACE FUNCTION usage_fold(most integer, rest interval DEFAULT '0') RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_mergejoin = off SET work_mem = '32MB' AS $$
DECLARE
  many CONSTANT integer := 50;
  over date := ((now() - interval '1 hour') AT TIME ZONE 'UTC')::date;
  batches bigint[]; tenants uuid[]; moments timestamptz[];
BEGIN
  -- An idle service calls this each second, and planning what follows takes a session longer than this. Without new rows,
  -- only parts of days and weeks that are over become due.
  IF NOT EXISTS (SELECT FROM usage_outbox) AND NOT EXISTS (
    SELECT FROM usage_rollups o WHERE o.level < 9 AND o.level < 8 AND o.day < over) AND NOT EXISTS (
    SELECT FROM usage_rollups o WHERE o.level < 9 AND o.level = 8 AND usage_week(o.day) + 6 < over) THEN RETURN 0; END IF;
  IF (SELECT count(*) = many AND min(k.written_at) BETWEEN now() - rest AND now()
    FROM (SELECT o.written_at FROM usage_outbox o ORDER BY o.batch, o.tenant_id LIMIT many) k) THEN RETURN 0; END IF;
  IF NOT pg_try_advisory_xact_lock(hashtext('usage-fold')) THEN RETURN -1; END IF;
  -- By their places, because the planner would join by keys in a way that depends on how full the outbox was when it was
  -- last analyzed. Nothing but the holder of the lock changes or deletes these rows.
  WITH taken AS (
    DELETE FROM usage_outbox o
    WHERE o.ctid = ANY (ARRAY(SELECT k.ctid FROM usage_outbox k ORDER BY k.batch, k.tenant_id LIMIT most)) RETURNING o.*
  )
  SELECT array_agg(t.batch), array_agg(t.tenant_id), array_agg(t.occurred_at) INTO batches, tenants, moments FROM taken t;
  IF batches IS NOT NULL THEN
    PERFORM usage_add_parts(ARRAY(
      SELECT unnest(CASE p.grain WHEN 'q' THEN ARRAY[p]
        ELSE ARRAY[p, usage_coarser(p, 'd', p.day), usage_coarser(p, 'w', p.day)] END)
      FROM usage_parts(batches, tenants, moments, NULL, NULL, NULL, 0::smallint) p));
  END IF;
  PERFORM usage_merge();
  RETURN coalesce(cardinality(batches), 0);
END
$$;

REVOKE ALL ON FUNCTION usage_fold FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_fold TO application_manager;
