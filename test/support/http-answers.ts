import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { exchange } from "./raw-http.ts"
import { type Answer, TestService } from "./service.ts"

/** Sends one request as it stands and answers what came back for it. */
export const sent = Effect.fnUntraced(function* (text: string, options: { readonly bodiless?: boolean } = {}) {
  const service = yield* TestService
  const { answers } = yield* exchange(service.url, text, options)
  return answers[0] ?? assert.fail("no answer came")
})

/** Asserts the headers that every answer has, whatever it says. */
export const assertSafe = (answer: Answer): void => {
  assert.strictEqual(answer.headers.get("x-content-type-options"), "nosniff")
  assert.strictEqual(answer.headers.get("referrer-policy"), "no-referrer")
  assert.strictEqual(answer.headers.get("cache-control"), "no-store")
  assert.match(answer.headers.get("x-request-id") ?? "", /^[A-Za-z0-9._-]{1,128}$/u)
}
