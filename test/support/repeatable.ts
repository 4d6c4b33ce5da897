import { Effect } from "effect"
import { type Call, TestService } from "./service.ts"

let numbered = 0

/** What a create of a trial user may say, with an address that nobody has yet. */
export const person = () => ({ firstName: "Ada", lastName: "Lovelace", email: `repeated.${++numbered}@example.com` })

/** An Idempotency-Key that nobody has used. */
export const newKey = () => `key ${++numbered}!`

/** A POST under an Idempotency-Key. */
export const post = Effect.fnUntraced(function* (path: string, key: string, body: unknown, options: Call = {}) {
  const service = yield* TestService
  return yield* service.call("POST", path, {
    body,
    ...options,
    headers: { "idempotency-key": key, ...options.headers }
  })
})

/** A trial user; answers its id. */
export const createUser = Effect.gen(function* () {
  const service = yield* TestService
  const made = yield* service.call("POST", "/api/trial-users", { body: person() })
  const id: number = made.body.id
  return id
})
