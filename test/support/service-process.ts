import { Effect, Redacted, type Scope } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { cached } from "./command.ts"
import { type TestDatabase } from "./database.ts"
import { processesWith, project, untilGone } from "./embedded-postgres.ts"
import { type Answer, type Call, caller, serviceKey } from "./service.ts"

/** The service as a process of its own, with a database that is embedded in it. */
export interface ServiceProcess {
  readonly url: string
  readonly pid: number
  readonly database: TestDatabase
  readonly call: (method: string, path: string, call?: Call) => Effect.Effect<Answer>
  readonly signal: (signal: NodeJS.Signals) => Effect.Effect<void>
  /** Its exit code, or the signal that ended it, once it has ended. */
  readonly ended: Effect.Effect<number | NodeJS.Signals>
  /** Everything that it has written so far. */
  readonly output: () => string
}

/** Starts the service on a directory and waits for its banner, which names its port; at the end it is ended by force. */
export const startProcess = (
  directory: string,
  environment: Record<string, string> = {},
  words: ReadonlyArray<string> = []
): Effect.Effect<ServiceProcess, Error, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<ServiceProcess & { readonly kill: Effect.Effect<void> }, Error>((resume) => {
      const child = spawn(process.execPath, [...cached, "src/main.ts", ...words], {
        cwd: project,
        stdio: ["ignore", "pipe", "pipe"],
        env: {
          PATH: process.env.PATH,
          APP_ENVIRONMENT: "Development",
          Api__Port: "0",
          Api__ApiKey: serviceKey,
          Api__RateLimit__Enabled: "false",
          Database__Directory: directory,
          Logging__Level: "Warn",
          ...environment
        }
      })
      const output: Array<string> = []
      const ended = Effect.callback<number | NodeJS.Signals>((done) => {
        const tell = () => done(Effect.succeed(child.signalCode ?? child.exitCode ?? Number.NaN))
        if (child.exitCode !== null || child.signalCode !== null) tell()
        else child.once("exit", tell)
      })
      const hear = (chunk: Buffer) => {
        output.push(chunk.toString())
        const url = /serves on (http:[^\s"]+)/u.exec(output.join(""))?.[1]
        if (url === undefined) return
        resume(
          Effect.map(superuserIn(directory), (database) => ({
            url,
            pid: child.pid ?? 0,
            database,
            call: caller(url),
            signal: (signal) => Effect.sync(() => void child.kill(signal)),
            ended,
            output: () => output.join(""),
            kill: Effect.andThen(
              Effect.sync(() => child.kill("SIGKILL")),
              ended
            )
          }))
        )
      }
      child.stdout.on("data", hear)
      child.stderr.on("data", hear)
      child.once("close", () => resume(Effect.die(new Error(`The service ended: ${output.join("")}`))))
    }),
    ({ kill }) => Effect.andThen(kill, untilDatabaseGone(directory))
  )

/** Waits until no process serves the database of a directory any more. */
export const untilDatabaseGone = (directory: string) =>
  Effect.flatMap(processesWith(directory), Effect.forEach(untilGone))

/** How the owner of the database reaches it that is embedded in a service on this directory. */
export const superuserIn = (directory: string): Effect.Effect<TestDatabase> =>
  Effect.map(
    Effect.promise(() => fs.readFile(path.join(directory, "password"), "utf8")),
    (password) => ({
      host: path.join(directory, "socket"),
      port: 5432,
      username: "postgres",
      password: Redacted.make(password.trim()),
      database: "postgres"
    })
  )
