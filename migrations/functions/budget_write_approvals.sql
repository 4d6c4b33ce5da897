-- Opens the held reservations that were approved, and returns those of all current approvals of the batch.
CREATE OR REPLACE FUNCTION budget_write_approvals(moment timestamptz, requests budget_request[], verdicts budget_verdict[])
RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
BEGIN
  -- A call of the gateway that was held was never made: its caller may make it with the reservation, or release that.
  UPDATE budget_reservations b SET state = 'open', amount = q.amount, decided_at = moment, decided_by = q.created_by,
    origin = CASE b.origin WHEN 'gateway' THEN 'api' ELSE b.origin END,
    decision_reason = q.reason, expires_at = moment + make_interval(secs => b.ttl_seconds), counter_ids = q.counter_ids
  FROM unnest(requests, verdicts) q
  WHERE b.tenant_id = q.tenant_id AND b.id = q.id AND q.verdict = 'open' AND budget_is_approval(q.kind);
  RETURN (
    SELECT coalesce(json_agg(json_build_object('place', q.ordinality, 'reservation', to_json(b))), '[]')
    FROM unnest(requests) WITH ORDINALITY q
    JOIN budget_reservations b ON b.tenant_id = q.tenant_id AND b.id = q.id WHERE budget_is_approval(q.kind));
END
$$;

REVOKE ALL ON FUNCTION budget_write_approvals FROM PUBLIC;
