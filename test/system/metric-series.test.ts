import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Metrics from "#src/platform/observability/metrics.ts"

// In a process of its own: the series of a process are never forgotten.
describe("the metrics of a process", () => {
  it.effect("counts routes past the bound together", () =>
    Effect.gen(function* () {
      for (let route = 0; route < 3000; route++) Metrics.recordRequest("GET", `/${route}`, 200, 0.001)
      const text = yield* Metrics.prometheus
      const counts = text.split("\n").filter((line) => line.startsWith("http_server_request_duration_seconds_count"))
      assert.isAtMost(counts.length, 2001)
      const other = counts.find((line) => line.includes('http_route="_OTHER"'))
      assert.isAtLeast(Number(other?.split(" ").at(-1)), 1000)
    })
  )
})
