import { assert, it } from "@effect/vitest"
import { Array, Effect, Exit } from "effect"
import { sendSignal } from "../../src/platform/embedded-postgres/system.ts"
import { isLinux, makeDirectory, postmasterPid } from "../support/embedded-postgres.ts"
import { type ServiceProcess, startProcess, untilDatabaseGone } from "../support/service-process.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

interface Request {
  readonly key: string
  readonly body: { readonly firstName: string; readonly lastName: string; readonly email: string }
}

/** Creates users one after another until the service is gone; answers the request that it took along. */
const writing = Effect.fnUntraced(function* (
  service: ServiceProcess,
  writer: string,
  acknowledged: globalThis.Array<number>
) {
  for (let n = 0; ; n++) {
    const email = `${writer}.${n}@example.com`
    const request: Request = { key: email, body: { firstName: "Ada", lastName: writer, email } }
    const answer = yield* Effect.exit(
      service.call("POST", "/api/trial-users", { body: request.body, headers: { "idempotency-key": request.key } })
    )
    if (Exit.isFailure(answer)) return request
    assert.strictEqual(answer.value.status, 201, answer.value.text)
    acknowledged.push(answer.value.body.id)
  }
})

const stored = (service: ServiceProcess) =>
  asSuperuser(service.database, (sql) =>
    Effect.gen(function* () {
      const users = yield* sql<{ readonly id: number }>`SELECT id FROM trial_users ORDER BY id`
      const entries = yield* sql<{ readonly id: number }>`
        SELECT entity_id::integer AS id FROM audit_entries WHERE action_type = 'UserCreated' ORDER BY 1`
      return { users: users.map(({ id }) => id), entries: entries.map(({ id }) => id) }
    })
  )

it.live.runIf(isLinux)(
  "kill -9 of the service, and of its database too, during writes loses nothing that was acknowledged, and no row comes without its entry",
  () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const acknowledged: globalThis.Array<number> = []
      const cutOff: globalThis.Array<Request> = []
      for (const round of [1, 2]) {
        const service = yield* startProcess(directory)
        const goal = acknowledged.length + 150
        const writers = Array.makeBy(6, (n) => writing(service, `writer-${round}-${n}`, acknowledged))
        const [requests] = yield* Effect.all(
          [
            Effect.all(writers, { concurrency: "unbounded" }),
            Effect.andThen(
              eventually(
                Effect.sync(() => acknowledged.length),
                (count) => count >= goal
              ),
              round === 1
                ? service.signal("SIGKILL")
                : Effect.andThen(
                    service.signal("SIGKILL"),
                    Effect.map(postmasterPid(directory), (pid) => sendSignal(pid, "SIGKILL"))
                  )
            )
          ],
          { concurrency: "unbounded" }
        )
        cutOff.push(...requests)
        assert.strictEqual(yield* service.ended, "SIGKILL")
      }

      const service = yield* startProcess(directory)
      const { entries, users } = yield* stored(service)
      assert.includeMembers(users, acknowledged)
      assert.deepStrictEqual(entries, users)
      assert.isAtLeast(acknowledged.length, 300)

      // Whether a request that was cut off was done shows only when it is asked again; then it is done, once.
      for (const { body, key } of cutOff) {
        const again = yield* service.call("POST", "/api/trial-users", { body, headers: { "idempotency-key": key } })
        assert.strictEqual(again.status, 201, again.text)
        assert.strictEqual(again.headers.get("idempotency-replayed") === "true", users.includes(again.body.id))
      }
      const after = yield* stored(service)
      assert.deepStrictEqual(after.entries, after.users)

      yield* service.signal("SIGKILL")
      yield* service.ended
      yield* untilDatabaseGone(directory)
    }).pipe(Effect.scoped),
  120_000
)
