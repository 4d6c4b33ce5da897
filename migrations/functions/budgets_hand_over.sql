-- A gateway call held for approval was never sent to a provider. Its reservation becomes an `api` reservation of the
-- caller, which may use it for a new call once approved, release it, or let it expire at no cost.
CREATE OR REPLACE FUNCTION budgets_hand_over(p json) RETURNS json
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  WITH handed AS (
    UPDATE budget_reservations r SET origin = 'api'
    WHERE r.tenant_id = (p->>'tenant')::uuid AND r.id = (p->>'id')::uuid AND r.state = 'held' AND r.origin = 'gateway'
    RETURNING r.id)
  SELECT json_build_object('handed', count(*)) FROM handed
$$;

REVOKE ALL ON FUNCTION budgets_hand_over FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_hand_over TO application_manager;
