import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, FileSystem } from "effect"
import { detectInFile, parseSeries } from "#src/insights/anomalies/series-file.ts"

describe("a file of measurements", () => {
  it("takes times with an offset and in UTC without one, and numbers in every decimal form", () => {
    const text =
      "\uFEFFtimestamp,value\r\n2026-01-01 00:00:00,1\r\n2026-01-01T02:00:00+01:00,-.5\r\n2026-01-01T02:00Z,1e3\r\n\r\n"
    assert.deepStrictEqual(parseSeries(text), [
      { at: Date.UTC(2026, 0, 1), value: 1 },
      { at: Date.UTC(2026, 0, 1, 1), value: -0.5 },
      { at: Date.UTC(2026, 0, 1, 2), value: 1000 }
    ])
    assert.deepStrictEqual(parseSeries("timestamp,value\n"), [])
  })

  const header = "timestamp,value\n"
  const noTime = "is no time; write one as 2026-11-22T13:00:00Z"

  it.each([
    ["", 'line 1: the header is ""; "timestamp,value" is required'],
    ["time,value\n", 'line 1: the header is "time,value"; "timestamp,value" is required'],
    [`${header}2026-01-02T00:00:00Z,1,2`, 'line 2: "2026-01-02T00:00:00Z,1,2" has 3 columns; 2 are required'],
    [`${header}2026-06-31T00:00:00Z,1`, `line 2: "2026-06-31T00:00:00Z" ${noTime}`],
    [`${header}2026-13-01T00:00:00Z,1`, `line 2: "2026-13-01T00:00:00Z" ${noTime}`],
    [`${header}1767225600,1`, `line 2: "1767225600" ${noTime}`],
    [`${header}2026-01-01T00:00:00Z,NaN`, 'line 2: "NaN" is no decimal number'],
    [`${header}2026-01-01T00:00:00Z,`, 'line 2: "" is no decimal number'],
    [`${header}2026-01-01T00:00:00Z,0x10`, 'line 2: "0x10" is no decimal number'],
    [`${header}2026-01-01T00:00:00Z,1e999`, 'line 2: "1e999" is no decimal number'],
    [
      `${header}2026-01-02T00:00:00Z,1\n2026-01-02T00:00:00Z,1`,
      "line 3: 2026-01-02T00:00:00Z is not later than the row before; times must increase strictly"
    ]
  ])("refuses %j", (text, message) => {
    assert.strictEqual(parseSeries(text), message)
  })
})

layer(NodeServices.layer)("npm run insights:detect", (it) => {
  it.effect("prints an episode a line, and says what is wrong with a file", () =>
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const directory = yield* files.makeTempDirectoryScoped()
      const rows = Array.from({ length: 30 * 24 }, (_, row) => {
        const value = row >= 600 && row < 606 ? 50 : 2 + Math.sin(row) / 10
        return `${new Date(Date.UTC(2026, 0, 1, row)).toISOString()},${value}`
      })
      yield* files.writeFileString(`${directory}/cost.csv`, ["timestamp,value", ...rows].join("\n"))
      const [line = "", ...others] = yield* detectInFile([`${directory}/cost.csv`])
      assert.lengthOf(others, 0)
      const { actual, end, expected, kind, score, start } = JSON.parse(line)
      assert.deepStrictEqual(
        { actual, end, kind, start },
        { actual: 300, end: "2026-01-26T05:00:00.000Z", kind: "loop", start: "2026-01-26T00:00:00.000Z" }
      )
      assert.approximately(expected, 12, 1)
      assert.isAbove(score, 2.8)

      yield* files.writeFileString(`${directory}/bad.csv`, "timestamp,value\nnever,1\n")
      const wrong = yield* Effect.flip(detectInFile([`${directory}/bad.csv`]))
      assert.include(wrong.message, 'bad.csv, line 2: "never" is no time')
      const missing = yield* Effect.flip(detectInFile([`${directory}/none.csv`]))
      assert.include(missing.message, "none.csv cannot be read")
      assert.include((yield* Effect.flip(detectInFile([]))).message, "npm run insights:detect -- FILE.csv")
    })
  )
})
