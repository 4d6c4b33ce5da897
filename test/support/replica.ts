import { Effect } from "effect"
import { spawn, type ChildProcess } from "node:child_process"
import { urlOf } from "./command.ts"
import { type TestDatabase } from "./database.ts"
import { project } from "./embedded-postgres.ts"
import { encryptionKey, serviceKey } from "./service.ts"

export interface Replica {
  readonly process: ChildProcess
  readonly url: string
  /** What it has printed so far. */
  readonly output: () => string
}

/** Puts the clock of a replica ahead. */
export const clockAhead = (seconds: number) => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(
    `const now = Date.now; Date.now = () => now() + ${seconds * 1000}`
  )}`
})

/** A replica as a process of its own, of the build in a directory. */
export const startReplica = (
  database: TestDatabase,
  environment: Readonly<Record<string, string>> = {},
  build = project
) =>
  Effect.callback<Replica>((resume) => {
    const child = spawn(process.execPath, ["src/main.ts"], {
      cwd: build,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: process.env.PATH,
        APP_ENVIRONMENT: "Development",
        Api__Port: "0",
        Api__ApiKey: serviceKey,
        Api__RateLimit__Enabled: "false",
        Database__Url: urlOf(database),
        Security__EncryptionKey: encryptionKey,
        Logging__Level: "Warn",
        ...environment
      }
    })
    let output = ""
    const hear = (chunk: Buffer) => {
      output += String(chunk)
      const url = /serves on (http:\S+)/u.exec(output)?.[1]
      if (url !== undefined) resume(Effect.succeed({ process: child, url, output: () => output }))
    }
    child.stdout.on("data", hear)
    child.stderr.on("data", hear)
    child.once("close", () => resume(Effect.die(new Error(`The replica ended: ${output}`))))
  })

const ended = (child: ChildProcess) =>
  Effect.callback<void>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) resume(Effect.void)
    else child.once("exit", () => resume(Effect.void))
  })

export const kill = ({ process: child }: Replica) =>
  Effect.andThen(
    Effect.sync(() => child.kill("SIGKILL")),
    ended(child)
  )
