import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // As before; the counters come first and by their ids, since the planner would else begin at the caps and read all the
  // past periods of each.
  yield* sql`
    CREATE OR REPLACE FUNCTION budget_has_thresholds(counters uuid[], tenants uuid[]) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
      WITH moved AS MATERIALIZED (
        SELECT DISTINCT tenant_id, cap_id FROM budget_counters WHERE tenant_id = ANY (tenants) AND id = ANY (counters))
      SELECT EXISTS (
        SELECT FROM moved m JOIN budget_caps c ON c.tenant_id = m.tenant_id AND c.id = m.cap_id
        WHERE c.alert_thresholds <> '[]')
    $$`
  yield* sql`
    DO $$
    DECLARE
      definition text := pg_get_functiondef('budget_note_alerts(timestamptz, uuid[])'::regprocedure);
      changes text[] := ARRAY[
        'WITH facts AS (',
        'WITH moved AS MATERIALIZED (SELECT * FROM budget_counters WHERE id = ANY (counters)), facts AS (',
        'FROM budget_counters b JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
        WHERE b.id = ANY (counters) AND c.deleted_at',
        'FROM moved b JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
        WHERE c.deleted_at'];
    BEGIN
      FOR at IN 1..3 BY 2 LOOP
        IF position(changes[at] IN definition) = 0 THEN
          RAISE EXCEPTION 'budget_note_alerts does not say: %', changes[at];
        END IF;
        definition := replace(definition, changes[at], changes[at + 1]);
      END LOOP;
      EXECUTE definition;
    END
    $$`
})
