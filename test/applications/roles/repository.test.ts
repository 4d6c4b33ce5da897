import { assert, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { ApplicationId } from "../../../src/applications/applications/domain.ts"
import { Role } from "../../../src/applications/roles/domain.ts"
import { RolesRepository } from "../../../src/applications/roles/repository.ts"
import { Change } from "../../../src/audit/log/domain.ts"
import { poolLayer } from "../../../src/platform/database/database.ts"
import { makeDatabase } from "../../support/database.ts"

const repositoryLayer = Layer.unwrap(
  Effect.map(makeDatabase, (connection) =>
    RolesRepository.layer.pipe(
      Layer.provideMerge(poolLayer({ connection, maxConnections: 1, statementTimeoutSeconds: 10 }))
    )
  )
)

const orphan = Role.insert.makeEffect({
  name: "Orphan",
  description: "",
  applicationId: ApplicationId.make(2_000_000_000),
  capabilities: [],
  builtIn: false
})

it.live("a role of an application that is gone is a problem by the name of the constraint, all else a defect", () =>
  Effect.gen(function* () {
    const repository = yield* RolesRepository
    const sql = yield* SqlClient.SqlClient
    const role = yield* orphan
    assert.strictEqual((yield* Effect.flip(repository.insert(role)))._tag, "ApplicationNotFound")
    yield* sql`SET ROLE NONE`
    yield* sql`ALTER TABLE roles ADD CONSTRAINT never CHECK (false) NOT VALID`
    const exit = yield* Effect.exit(repository.insert(role))
    assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
  }).pipe(Effect.provideService(Change, { occurredAt: new Date(0) }), Effect.provide(repositoryLayer))
)
