import { Effect, Option } from "effect"
import * as fs from "node:fs/promises"
import { run, sendSignal } from "./program.ts"

/**
 * The command line of the process with that id; `undefined` when there is none, or only the exit code of one (a zombie).
 */
export const findProcess = (pid: number): Effect.Effect<string | undefined> => {
  if (!isTaken(pid)) return Effect.undefined
  if (process.platform === "linux") return Effect.promise(() => readCommandLine(`/proc/${pid}`))
  return Effect.map(
    process.platform === "win32"
      ? ask(
          "powershell",
          "-NoProfile",
          "-Command",
          `(Get-CimInstance Win32_Process -Filter ProcessId=${pid}).CommandLine`
        )
      : ask("ps", "-o", "args=", "-p", `${pid}`),
    ({ output }) => (output === "" || output.endsWith("<defunct>") ? undefined : output)
  )
}

/** Whether the system has given that process id away, be it to a zombie. */
export const isTaken = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (cause) {
    return cause instanceof Error && "code" in cause && cause.code === "EPERM"
  }
}

const readCommandLine = async (directory: string) => {
  const stat = await fs.readFile(`${directory}/stat`, "utf8").catch(() => ") X")
  const state = stat.at(stat.lastIndexOf(")") + 2)
  if (state === "Z" || state === "X") return undefined
  const words = await fs.readFile(`${directory}/cmdline`, "utf8").catch(() => "")
  return words.replaceAll("\0", " ").trimEnd()
}

const ask = (command: string, ...args: ReadonlyArray<string>) => run(command, args, { user: undefined, directory: "/" })

const escalation = [
  ["SIGINT", "20 seconds"],
  ["SIGQUIT", "10 seconds"],
  ["SIGKILL", "5 seconds"]
] as const

/**
 * Ends a postmaster: a fast shutdown, which breaks off transactions and saves all that is committed, then an immediate
 * one, then by force. `ended` completes with the process; answers whether it did.
 */
export const endPostmaster = Effect.fnUntraced(function* (pid: number, ended: Effect.Effect<unknown>, pgCtl: string) {
  for (const [signal, patience] of escalation) {
    // Windows has no signals; PostgreSQL has a substitute for its own.
    if (process.platform === "win32" && signal !== "SIGKILL") yield* ask(pgCtl, "kill", signal.slice(3), `${pid}`)
    else sendSignal(pid, signal)
    if (Option.isSome(yield* Effect.timeoutOption(ended, patience))) return true
  }
  return false
})
