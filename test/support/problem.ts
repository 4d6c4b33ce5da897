import { assert } from "@effect/vitest"
import { type Answer } from "./service.ts"

/** Asserts that an answer is the problem of that status and slug, complete. */
export const assertProblem = (answer: Answer, status: number, slug: string): void => {
  assert.strictEqual(answer.status, status, answer.text.slice(0, 300))
  assert.strictEqual(answer.headers.get("content-type"), "application/problem+json")
  assert.deepInclude(answer.body, { type: `urn:application-manager:problem:${slug}`, status })
  assert.isNotEmpty(answer.body.title)
  assert.isNotEmpty(answer.body.detail)
  assert.match(answer.body.traceId, /^[0-9a-f]{32}$/)
}

/** The places that a `validation-failed` problem (of OAuth an `invalid-request`) names, each once, with its segments joined by dots. */
export const faultPaths = (answer: Answer): ReadonlyArray<string> => {
  assertProblem(answer, 400, answer.body.error === "invalid_request" ? "invalid-request" : "validation-failed")
  const faults: ReadonlyArray<{ readonly path: ReadonlyArray<string | number> }> = answer.body.errors
  return [...new Set(faults.map((fault) => fault.path.join(".")))]
}
