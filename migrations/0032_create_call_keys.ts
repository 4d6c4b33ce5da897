import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // Which call of the gateway ran under which Idempotency-Key; its answer is kept nowhere.
  yield* sql`
    CREATE TABLE call_keys (
      principal text NOT NULL,
      route text NOT NULL,
      key text NOT NULL,
      request_sha256 bytea NOT NULL,
      reservation_id uuid,
      created_at timestamptz NOT NULL,
      PRIMARY KEY (principal, route, key)
    )`
  yield* sql`CREATE INDEX call_keys_age ON call_keys (created_at)`

  // What was said in calls, where the settings say that it is kept.
  yield* sql`
    CREATE TABLE gateway_contents (
      reservation_id uuid PRIMARY KEY,
      tenant_id uuid NOT NULL REFERENCES tenants (id),
      sealed bytea NOT NULL,
      created_at timestamptz NOT NULL
    )`
  yield* sql`CREATE INDEX gateway_contents_age ON gateway_contents (created_at)`
  yield* sql`ALTER TABLE gateway_contents ENABLE ROW LEVEL SECURITY`
  yield* sql`
    CREATE POLICY gateway_contents_of_tenant ON gateway_contents
    USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`
})
