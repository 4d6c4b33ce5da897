import { assert, describe, it } from "@effect/vitest"
import { retryPauseMillis, retryPausesMillis } from "../../../src/events/deliveries/domain.ts"

describe("retries", () => {
  it("follow the schedule of Standard Webhooks with jitter, and end", () => {
    const [second, minute, hour] = [1000, 60_000, 3_600_000]
    assert.deepStrictEqual(retryPausesMillis, [
      5 * second!,
      5 * minute!,
      30 * minute!,
      2 * hour!,
      5 * hour!,
      10 * hour!,
      14 * hour!,
      20 * hour!,
      24 * hour!
    ])
    assert.deepStrictEqual([retryPauseMillis(1, 0), retryPauseMillis(1, 1)], [5000, 5500])
    assert.strictEqual(retryPauseMillis(9, 0), 24 * hour!)
    assert.isNull(retryPauseMillis(10, 0))
  })
})
