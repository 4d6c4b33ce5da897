import { assert, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { makeDatabase } from "../support/database.ts"
import { kill, startReplica } from "../support/replica.ts"
import { caller } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"
import { startReceiver } from "../support/webhook-receiver.ts"

const structured = "application/cloudevents+json"

it.live(
  "kill -9 of a replica between a commit and its delivery loses no event, and repeats none under another id",
  () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const environment = { Integrations__AllowPrivateAddresses: "true" }
      const dying = yield* startReplica(database, environment)
      const staying = yield* startReplica(database, environment)
      yield* Effect.addFinalizer(() => Effect.andThen(kill(dying), kill(staying)))
      const [callDying, callStaying] = [caller(dying.url), caller(staying.url)]
      const receiver = yield* startReceiver
      // What is taken before the end is answered by nobody.
      receiver.isSilent = true
      const created = yield* callDying("POST", "/api/integrations", {
        body: { kind: "cloudevents", name: "observer", url: receiver.url, eventTypes: ["com.example.*"] }
      })
      assert.strictEqual(created.status, 201, created.text)

      const acknowledged: Array<string> = []
      const writer = (name: string) =>
        Effect.gen(function* () {
          for (let n = 0; ; n++) {
            const id = `${name}-${n}`
            const body = { specversion: "1.0", id, source: "https://writer.example", type: "com.example.written" }
            const answer = yield* Effect.exit(
              callDying("POST", "/api/cloudevents", { body, headers: { "content-type": structured } })
            )
            if (Exit.isFailure(answer)) return
            assert.strictEqual(answer.value.status, 201, answer.value.text)
            acknowledged.push(id)
          }
        })
      yield* Effect.all(
        [
          Effect.forEach(["a", "b", "c"], writer, { concurrency: "unbounded" }),
          Effect.andThen(
            Effect.andThen(
              receiver.until(3),
              eventually(
                Effect.sync(() => acknowledged.length),
                (count) => count >= 100
              )
            ),
            kill(dying)
          )
        ],
        { concurrency: "unbounded" }
      )
      receiver.release()
      // The time that the dead replica had for its attempts is over.
      const expire = asSuperuser(
        database,
        (sql) => sql`UPDATE event_deliveries SET due_at = least(due_at, now()) WHERE status = 'pending'`
      )
      const received = () => receiver.hooks.map(({ body }) => JSON.parse(body) as Record<string, string>)
      yield* eventually(
        Effect.map(expire, () => new Set(received().map(({ id }) => id))),
        (ids) => acknowledged.every((id) => ids.has(id))
      )
      const sequences = new Map<string | undefined, string | undefined>()
      for (const { id, sequence, source } of received()) {
        assert.strictEqual(source, "https://writer.example")
        assert.strictEqual(sequences.get(id) ?? sequence, sequence, `${id} was delivered under two sequences`)
        sequences.set(id, sequence)
      }
      const pulled: Array<Record<string, string>> = []
      for (let after = ""; ;) {
        const { body } = yield* callStaying("GET", `/api/cloudevents?types=com.example.*&limit=200${after}`)
        if (body.items.length === 0) break
        pulled.push(...body.items)
        after = `&after=${body.nextCursor}`
      }
      const ids = pulled.map(({ id }) => id)
      assert.strictEqual(new Set(ids).size, ids.length)
      assert.includeMembers(ids, acknowledged)
      // Each writer waited for its answer, so the order of its events is that of the log.
      for (const name of ["a", "b", "c"]) {
        const own = ids.filter((id) => id?.startsWith(`${name}-`)).map((id) => Number(id?.slice(2)))
        assert.deepStrictEqual(
          own,
          own.toSorted((a, b) => a - b)
        )
      }
    }).pipe(Effect.scoped),
  180_000
)
