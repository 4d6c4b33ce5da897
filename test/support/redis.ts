import { Effect } from "effect"
import { type ChildProcess, execFile } from "node:child_process"
import * as fs from "node:fs"
import { accepts, endOf, freePort, serverProcess } from "./server-process.ts"
import { eventually } from "./waiting.ts"

const placeOf = (name: string) =>
  ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"].map((at) => `${at}/${name}`).find((file) => fs.existsSync(file))

const program = placeOf("redis-server")
const client = placeOf("redis-cli")

export const hasRedis = program !== undefined && client !== undefined
if (!hasRedis) {
  process.stdout.write("The tests of Redis are skipped: no redis-server was found (Debian: redis-server).\n")
}

/** A Redis that may be killed, stopped and started again at the same place. */
export const makeRedis = Effect.gen(function* () {
  const port = yield* freePort
  let child: ChildProcess | undefined
  const words = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
  const startAgain = Effect.gen(function* () {
    child = yield* serverProcess(program ?? "", words)
    yield* eventually(accepts(port), (isUp) => isUp)
  })
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    startAgain,
    kill: Effect.suspend(() => (child === undefined ? Effect.void : endOf(child))),
    freeze: Effect.sync(() => child?.kill("SIGSTOP")),
    thaw: Effect.sync(() => child?.kill("SIGCONT")),
    /** Runs a command of Redis; answers what it printed. */
    command: (...command: ReadonlyArray<string>) =>
      Effect.callback<string>((resume) => {
        execFile(client ?? "", ["-p", String(port), ...command], (error, output) =>
          resume(error === null ? Effect.succeed(output.trim()) : Effect.die(error))
        )
      })
  }
})
