import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // For the trends of the dashboard, which count what came on each of the last days.
  yield* sql`CREATE INDEX trial_users_created ON trial_users (created_at)`
  yield* sql`CREATE INDEX sessions_started ON sessions (started_at)`
  yield* sql`CREATE INDEX applications_created ON applications (created_at)`
})
