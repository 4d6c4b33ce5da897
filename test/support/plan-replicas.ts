import { Context, Effect, Layer } from "effect"
import { makeDatabase } from "./database.ts"
import { makeSetting } from "./plans.ts"
import { caller, startService, TestService } from "./service.ts"

/** Another replica on the same database. */
class Replica extends Context.Service<Replica, TestService["Service"]>()("test/plans/Replica") {}

export const replicas = Layer.effectContext(
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const [one, other] = yield* Effect.all([startService(database), startService(database)])
    return Context.make(TestService, one).pipe(Context.add(Replica, other))
  }).pipe(Effect.orDie)
)

/** A setting, and its calls by turns at both replicas. */
export const settingOfTwo = Effect.fnUntraced(function* (caps?: ReadonlyArray<object>) {
  const service = yield* TestService
  const other = yield* Replica
  const setting = yield* makeSetting(service, caps)
  let turn = 0
  const post = (path: string, body?: unknown) =>
    Effect.suspend(() =>
      caller((turn++ % 2 === 0 ? service : other).url)("POST", path, {
        key: setting.key,
        ...(body === undefined ? {} : { body })
      })
    )
  return { ...setting, post }
})
