import { Effect } from "effect"
import { type TestDatabase } from "./database.ts"
import { asSuperuser } from "./statements.ts"

/** The columns of an entry that a test chooses, by their names in the table. */
export interface EntryColumns {
  readonly occurred_at?: string
  readonly action_type?: string
  readonly entity_type?: string
  readonly entity_id?: string | null
  readonly user_id?: string
  readonly actor_type?: string
  readonly tenant_id?: string | null
  readonly outcome?: string
}

/** Writes entries past the service; answers their ids. */
export const insertEntries = (database: TestDatabase, entries: ReadonlyArray<EntryColumns>) =>
  asSuperuser(database, (sql) =>
    Effect.forEach(entries, (columns) =>
      Effect.map(
        sql<{ readonly id: string }>`
          INSERT INTO audit_entries ${sql.insert({
            occurred_at: "2026-01-01T00:00:00.000Z",
            action_type: "UserCreated",
            entity_type: "TrialUser",
            entity_id: "1",
            user_id: "service-account",
            actor_type: "service-account",
            tenant_id: null,
            outcome: "success",
            ...columns
          })} RETURNING id`,
        ([row]) => row?.id ?? ""
      )
    )
  )
