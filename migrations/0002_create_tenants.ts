import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE tenants (
      id uuid PRIMARY KEY DEFAULT new_id(),
      name text NOT NULL,
      slug text NOT NULL UNIQUE,
      status text NOT NULL CHECK (status IN ('active', 'suspended')),
      settings jsonb NOT NULL DEFAULT '{}',
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL
    )`
  yield* sql`
    INSERT INTO tenants (name, slug, status, created_at, updated_at)
    VALUES ('Default', 'default', 'active', now(), now())`
})
