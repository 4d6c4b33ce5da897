import { assert, it } from "@effect/vitest"
import { Effect, Tracer } from "effect"
import { makeAccount, passphrase } from "../../support/accounts.ts"
import { makeDatabase } from "../../support/database.ts"
import { assertProblem } from "../../support/problem.ts"
import { startService } from "../../support/service.ts"
import { makeSpans } from "../../support/spans.ts"

it.live("a sign-in does the same for an unknown account, a wrong password and a suspended account", () =>
  Effect.gen(function* () {
    const { tracer, workOf } = makeSpans()
    const service = yield* Effect.flatMap(makeDatabase, startService).pipe(Effect.provideService(Tracer.Tracer, tracer))
    const { email } = yield* makeAccount(service)
    const suspended = yield* makeAccount(service)
    yield* service.call("PATCH", `/api/accounts/${suspended.id}`, { body: { status: "suspended" } })
    const tried = {
      "wrong password": { email, password: "another passphrase" },
      "unknown account": { email: "nobody@example.org", password: "another passphrase" },
      suspended: { email: suspended.email, password: passphrase }
    }
    const login = (body: object) => workOf(service, "POST", "/api/auth/login", { key: null, body })
    // What the first sign-in of a process alone does is nobody's.
    yield* login({ email: "first@example.org", password: passphrase })
    const works: Record<string, ReadonlyArray<string>> = {}
    for (const [what, body] of Object.entries(tried)) {
      const { answer, work } = yield* login(body)
      assertProblem(answer, 401, "unauthenticated")
      works[what] = work
    }
    for (const [what, work] of Object.entries(works)) assert.deepStrictEqual(work, works["wrong password"], what)
    assert.strictEqual(works["wrong password"]?.filter((name) => name === "Passwords.verify").length, 1)
  })
)
