import * as fs from "node:fs/promises"
import { median, print, startService, temporaryDirectory } from "./rates.ts"

const rounds = 5
/** Caches, timers and the young generation of the heap take that long to show. */
const idleMillis = 120_000

const residentMegabytes = async (processId: number): Promise<number> => {
  const status = await fs.readFile(`/proc/${processId}/status`, "utf8")
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024
}

/** From the start of the process to its first answer on an initialised database, and the most that it occupies without requests. */
export const benchStart = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  try {
    await (await startService(directory)).stop()
    const seconds: Array<number> = []
    const megabytes: Array<number> = []
    for (let round = 0; round < rounds; round++) {
      const started = performance.now()
      const service = await startService(directory)
      await fetch(`${service.url}/health/ready`)
      seconds.push((performance.now() - started) / 1000)
      if (round === rounds - 1) {
        const until = performance.now() + idleMillis
        while (performance.now() < until) {
          await new Promise((resolve) => setTimeout(resolve, 1000))
          megabytes.push(await residentMegabytes(service.process.pid ?? 0))
        }
      }
      await service.stop()
    }
    const [start, memory] = [median(seconds), Math.max(...megabytes)]
    print(`Start and rest, of ${rounds} starts`, [
      {
        what: "process start to ready, initialised database",
        measured: `${start.toFixed(2)} s`,
        wanted: "(wanted < 1.5)",
        met: start < 1.5
      },
      {
        what: "most memory of the service in two idle minutes",
        measured: `${memory.toFixed(0)} MB`,
        wanted: "(wanted < 150)",
        met: memory < 150
      }
    ])
  } finally {
    await fs.rm(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) await benchStart()
