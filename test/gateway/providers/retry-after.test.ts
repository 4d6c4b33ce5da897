import { assert, describe, it } from "@effect/vitest"
import { retryAfterSeconds } from "../../../src/gateway/providers/http-provider.ts"

const now = Date.UTC(2026, 10, 22, 13, 0, 0)

describe("how long a provider asks to be left alone", () => {
  it("is told in seconds, as a date, or in milliseconds, which are the most exact", () => {
    for (const [headers, seconds] of [
      [{ "retry-after": "7" }, 7],
      [{ "retry-after": "0.5" }, 0.5],
      [{ "retry-after": "Sun, 22 Nov 2026 13:00:03 GMT" }, 3],
      [{ "retry-after": "Sunday, 22-Nov-26 13:01:00 GMT" }, 60],
      [{ "retry-after-ms": "1500" }, 1.5],
      [{ "retry-after": "2", "retry-after-ms": "1500" }, 1.5],
      [{ "retry-after": "2", "retry-after-ms": "soon" }, 2]
    ] as const) {
      assert.strictEqual(retryAfterSeconds(headers, now), seconds, JSON.stringify(headers))
    }
  })

  it("is nothing where no number, and no date to come, is told", () => {
    for (const header of [
      "soon",
      "-1",
      "1e3",
      "2026-11-22",
      "Sun, 22 Nov 2026 12:59:00 GMT",
      "Sun, 99 Nov 2026 13:00:03 GMT"
    ]) {
      assert.isUndefined(retryAfterSeconds({ "retry-after": header }, now), header)
    }
    assert.isUndefined(retryAfterSeconds({}, now))
  })
})
