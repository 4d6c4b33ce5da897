import { assert, describe, it } from "@effect/vitest"
import { evaluate, makeSeries } from "../bench/anomaly-series.ts"
import { hasNab, normalised, readNab, scoreDetections } from "../bench/nab.ts"
import { detect } from "#src/insights/anomalies/detection.ts"

describe("anomalies", () => {
  it("have precision and recall of 0.9 on 600 injected series", () => {
    const { precision, recall } = evaluate(Array.from({ length: 600 }, (_, seed) => makeSeries(seed)))
    assert.isAtLeast(precision, 0.9)
    assert.isAtLeast(recall, 0.9)
  })

  it.skipIf(!hasNab)("score 45 on the Numenta Anomaly Benchmark, where NAB_DIRECTORY has it", () => {
    const scores = readNab().map((series) =>
      scoreDetections(
        series,
        detect(series.points).map(({ start }) => start)
      )
    )
    assert.isAtLeast(normalised(scores), 45)
  })
})
