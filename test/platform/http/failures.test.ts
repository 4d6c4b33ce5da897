import { assert, it } from "@effect/vitest"
import { Cause } from "effect"
import { SqlError } from "effect/sql"
import { problemOf } from "../../../src/platform/http/failures.ts"

const sqlError = (message: string) =>
  new SqlError.SqlError({
    reason: new SqlError.UnknownError({ cause: new Error(message), message: "Failed to execute" })
  })

for (const state of ["starting up", "shutting down", "in recovery mode", "not yet accepting connections"]) {
  it(`a database that is ${state} is a 503, as a failure and as a defect`, () => {
    const error = sqlError(`the database system is ${state}`)
    for (const cause of [Cause.fail(error), Cause.die(error)]) {
      assert.deepInclude(problemOf(cause), { status: 503, type: "urn:application-manager:problem:overloaded" })
    }
  })
}

it("any other failure of a statement is a defect", () => {
  assert.isUndefined(problemOf(Cause.die(sqlError("division by zero"))))
  assert.isUndefined(problemOf(Cause.die(new Error("a bug"))))
})
