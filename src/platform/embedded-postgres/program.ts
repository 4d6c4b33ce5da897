import { Effect, Option } from "effect"
import { spawn, type SpawnOptions } from "node:child_process"

/** An account of the operating system that programs run as; `undefined` in its place means the account of this process. */
export interface OperatingSystemUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

const inheritedVariables = ["PATH", "LD_LIBRARY_PATH", "NIX_LD", "NIX_LD_LIBRARY_PATH", "SystemRoot", "TEMP", "TMP"]

/**
 * How every program is started: as `user`, in a session of its own, which ctrl-C in a terminal does not reach,
 * and with none of the service's environment, which holds secrets.
 */
export const programOptions = (user: OperatingSystemUser | undefined, directory: string): SpawnOptions => ({
  ...(user === undefined ? {} : { uid: user.uid, gid: user.gid }),
  cwd: directory,
  detached: true,
  windowsHide: true,
  env: {
    LC_ALL: "C",
    ...Object.fromEntries(
      inheritedVariables.flatMap((name) => {
        const value = process.env[name]
        return value === undefined ? [] : [[name, value]]
      })
    )
  }
})

/** What a program left behind; without an exit code it could not be started, and `output` says why. */
export interface ProgramResult {
  readonly exitCode: number | undefined
  readonly output: string
}

/** Runs a program to its end; interruption ends it and all that it started. */
export const run = (
  command: string,
  args: ReadonlyArray<string>,
  options: { readonly user: OperatingSystemUser | undefined; readonly directory: string }
): Effect.Effect<ProgramResult> =>
  Effect.callback((resume) => {
    const child = spawn(command, args, {
      ...programOptions(options.user, options.directory),
      stdio: ["ignore", "pipe", "pipe"]
    })
    const output: Array<string> = []
    const collect = (chunk: Buffer) => output.push(chunk.toString())
    child.stdout?.on("data", collect)
    child.stderr?.on("data", collect)
    child.once("error", (error) => resume(Effect.succeed({ exitCode: undefined, output: error.message })))
    child.once("close", (exitCode) =>
      resume(Effect.succeed({ exitCode: exitCode ?? undefined, output: output.join("").trim() }))
    )
    return Effect.sync(() => {
      if (child.pid === undefined) return
      sendSignal(process.platform === "win32" ? child.pid : -child.pid, "SIGKILL")
    })
  })

/** Signals a process, or with a negative id its whole group; one that is gone is left in peace. */
export const sendSignal = (processId: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(processId, signal)
  } catch {
    return
  }
}

/** The account of that name, when the system has it. */
export const userNamed = Effect.fnUntraced(function* (
  name: string
): Effect.fn.Return<Option.Option<OperatingSystemUser>> {
  const ids = yield* Effect.all([ask("id", "-u", name), ask("id", "-g", name)])
  const [uid, gid] = ids.map((id) => (id.exitCode === 0 ? Number.parseInt(id.output, 10) | 0 : Number.NaN))
  if (uid === undefined || gid === undefined || Number.isNaN(uid) || Number.isNaN(gid)) return Option.none()
  return Option.some({ name, uid, gid })
})

/** The account that owns a file with these ids. */
export const userOwning = (owner: { readonly uid: number; readonly gid: number }): Effect.Effect<OperatingSystemUser> =>
  Effect.map(ask("id", "-nu", `${owner.uid}`), (found) => ({
    name: found.exitCode === 0 ? found.output : `${owner.uid}`,
    uid: owner.uid | 0,
    gid: owner.gid | 0
  }))

/** Whether the kernel lets `user` enter a directory; asked of the kernel, since modes alone do not tell. */
export const mayEnter = (user: OperatingSystemUser, directory: string): Effect.Effect<boolean> =>
  Effect.map(
    run("/bin/sh", ["-c", 'cd "$1"', "sh", directory], { user, directory: "/" }),
    (result) => result.exitCode === 0
  )

const ask = (command: string, ...args: ReadonlyArray<string>) => run(command, args, { user: undefined, directory: "/" })
