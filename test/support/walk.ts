import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { listAt } from "../../src/kernel/http/page.ts"
import { type Answer, type Call, type TestService } from "./service.ts"

/** A cursor of the list at an address, as the service writes it, for any place. */
export const forgedCursor = (address: string, place: unknown): string =>
  Buffer.from(JSON.stringify([listAt(address), place])).toString("base64url")

interface Row {
  readonly id: number | string
}

/** Where the next page of a bare array is, from the Link header; undefined on the last page. */
export const nextLink = (answer: Answer): string | undefined =>
  /^<(\/.+)>; rel="next"$/.exec(answer.headers.get("link") ?? "")?.[1]

/** The ids on every page of a bare array from `path` on; `between` runs after each page, as if others were at work. */
export const walkLinks = Effect.fnUntraced(function* (
  service: TestService["Service"],
  path: string,
  between: Effect.Effect<unknown> = Effect.void
) {
  const pages: Array<ReadonlyArray<Row["id"]>> = []
  for (let next: string | undefined = path; next !== undefined;) {
    const answer: Answer = yield* service.call("GET", next)
    assert.strictEqual(answer.status, 200, answer.text.slice(0, 300))
    pages.push(answer.body.map((row: Row) => row.id))
    next = nextLink(answer)
    yield* between
  }
  return pages
})

/** The ids on every page of a list with an envelope from `path` on, like {@link walkLinks}. */
export const walkCursors = Effect.fnUntraced(function* (
  service: TestService["Service"],
  path: string,
  options: { readonly between?: Effect.Effect<unknown>; readonly call?: Call } = {}
) {
  const pages: Array<ReadonlyArray<Row["id"]>> = []
  for (let next: string | undefined = path; next !== undefined;) {
    const answer: Answer = yield* service.call("GET", next, options.call)
    assert.strictEqual(answer.status, 200, answer.text.slice(0, 300))
    assert.hasAllKeys(answer.body, ["items", "nextCursor"])
    pages.push(answer.body.items.map((row: Row) => row.id))
    const cursor: string | null = answer.body.nextCursor
    next = cursor === null ? undefined : `${path}${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(cursor)}`
    yield* options.between ?? Effect.void
  }
  return pages
})
