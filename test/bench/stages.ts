import * as fs from "node:fs/promises"
import { type Measured } from "./clients.ts"
import { configureModels, load, spender } from "./gateway.ts"
import { giveWay, median, startProvider, startStages, temporaryDirectory, type Spent } from "./rates.ts"

/** The stages of a gateway call, each with all before it. */
export const stages = [
  "floor",
  "read, validate",
  "authenticate, attribute",
  "resolve",
  "bound, price",
  "reserve",
  "provider exchange",
  "relay, meter",
  "settle",
  "usage row",
  "edge, spans, metrics"
] as const

const seconds = Number(process.env.BENCH_SECONDS ?? "2")
const rounds = Number(process.env.BENCH_ROUNDS ?? "3")
const levels = (process.env.BENCH_CONNECTIONS ?? "1,4,16,128").split(",").map(Number)
/** The share of the floor's rate that a call is to reach. */
const wanted: Readonly<Record<number, number>> = { 1: 0.15, 16: 0.25, 128: 0.4 }

type Seen = Measured & Spent

const numbers = (values: ReadonlyArray<number>) => values.map((value) => value.toFixed(0).padStart(7)).join("")

/**
 * What each stage of a call through the gateway adds to a bare proxy: processor time of the process and of its PostgreSQL,
 * and the wall time of a call, in microseconds. A flat profile hides what a ladder shows: most of a call is no function of
 * its own, but what it takes to get from one to the next. Metering, one hard cap and usage rows are on, and the stages are
 * measured in turns.
 */
const benchStages = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const provider = await startProvider()
  const { gatewayUrl, ...server } = await startStages(directory, provider)
  try {
    await configureModels(gatewayUrl, provider)
    const headers = await spender(gatewayUrl, [{}])
    const targets = stages.map((_, stage) =>
      stage === stages.length - 1
        ? { server, url: gatewayUrl, headers }
        : { server, url: server.url, headers, asked: { path: `/stages/${stage}`, body } }
    )
    giveWay(provider)
    for (const target of targets) await load(target, 16, seconds)
    for (const connections of levels) {
      const seen = stages.map((): Array<Seen> => [])
      for (let round = 0; round < rounds; round++) {
        for (const [stage, target] of targets.entries()) seen[stage]?.push(await load(target, connections, seconds))
      }
      const of = (stage: number) => {
        const all = seen[stage] ?? []
        const each = (value: (one: Seen) => number) => median(all.map(value))
        return [
          each((one) => one.process),
          each((one) => one.postgres),
          each(({ perSecond }) => (connections / perSecond) * 1e6)
        ]
      }
      const lines = stages.map((name, stage) => {
        const all = of(stage)
        const before = stage === 0 ? [0, 0, 0] : of(stage - 1)
        return `  ${name.padEnd(24)}${numbers(all.map((value, index) => value - (before[index] ?? 0)))}   ${numbers(all)}`
      })
      const ratios = (seen.at(-1) ?? []).map(({ perSecond }, round) => perSecond / (seen[0]?.[round]?.perSecond ?? 0))
      const ratio = median(ratios)
      const want = wanted[connections]
      process.stdout.write(
        `\n${connections} connections, median of ${rounds} rounds of ${seconds} s; µs a call\n` +
          `  ${"".padEnd(24)}   adds: PostgreSQL, wall      all: PostgreSQL, wall\n${lines.join("\n")}\n` +
          `  a call has ${ratio.toFixed(2)} of the floor's rate${want === undefined ? "" : ` (wanted ${want})${ratio < want ? "  MISSED" : ""}`}\n`
      )
    }
  } finally {
    await server.stop()
    await provider.stop()
    await fs.rm(directory, { recursive: true, force: true })
  }
}

const body = JSON.stringify({ model: "bench", messages: [{ role: "user", content: "What time is it in Oslo?" }] })

if (import.meta.main) await benchStages()
