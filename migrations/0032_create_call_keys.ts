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
})
