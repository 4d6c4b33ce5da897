import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE idempotency_keys (
      principal text NOT NULL,
      route text NOT NULL,
      key text NOT NULL,
      request_sha256 bytea NOT NULL,
      status smallint NOT NULL,
      headers jsonb NOT NULL,
      body text NOT NULL,
      created_at timestamptz NOT NULL,
      PRIMARY KEY (principal, route, key)
    )`
  yield* sql`CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at)`
})
