import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // Keys of providers that were given as they are: the gateway's configuration names them, and holds none.
  yield* sql`
    CREATE TABLE gateway_secrets (
      id uuid PRIMARY KEY DEFAULT new_id(),
      sealed bytea NOT NULL,
      created_at timestamptz NOT NULL,
      created_by text NOT NULL
    )`
  yield* sql`REVOKE UPDATE ON gateway_secrets FROM application_manager`
})
