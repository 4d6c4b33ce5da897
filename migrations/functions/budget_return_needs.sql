-- Undoes what a batch has just reserved on these locked counters, before it is decided again or rejected as stale.
CREATE OR REPLACE FUNCTION budget_return_needs(needs budget_need[], counters uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
BEGIN
  UPDATE budget_counters b SET reserved = b.reserved - n.need
  FROM unnest(needs) WITH ORDINALITY n
  WHERE b.tenant_id = n.tenant_id AND b.id = counters[n.ordinality];
END
$$;

REVOKE ALL ON FUNCTION budget_return_needs FROM PUBLIC;
