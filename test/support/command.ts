import { Effect, Redacted } from "effect"
import { spawn } from "node:child_process"
import { type TestDatabase } from "./database.ts"
import { project } from "./embedded-postgres.ts"

/** Takes what was compiled before, as `npm start` does. */
export const cached = ["--import", "./src/platform/runtime/compile-cache.ts"] as const

/** Runs a command of a build as npm does, with these settings; answers its exit code and what it wrote. */
export const runCommand = (
  file: string,
  settings: Record<string, string>,
  words: ReadonlyArray<string> = [],
  build = project
) =>
  Effect.callback<{ readonly code: number | null; readonly output: string }>((resume) => {
    const child = spawn(process.execPath, [...cached, file, ...words], {
      cwd: build,
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env.PATH, ...settings }
    })
    let output = ""
    const read = (chunk: Buffer) => void (output += chunk.toString())
    child.stdout.on("data", read)
    child.stderr.on("data", read)
    child.once("close", (code) => resume(Effect.succeed({ code, output })))
    return Effect.sync(() => void child.kill("SIGKILL"))
  })

export const urlOf = ({ database, host, password, port, username }: TestDatabase): string =>
  `postgres://${username}:${encodeURIComponent(Redacted.value(password))}@${encodeURIComponent(host)}:${port}/${database}`
