import { Effect, Option, Schema } from "effect"
import { spawn, type SpawnOptions } from "node:child_process"
import * as fs from "node:fs/promises"

/**
 * Why the embedded database cannot be used. `directory-in-use`: a living process owns the directory;
 * `unreachable-directory`: the service or the server's account cannot create, enter or read it; `initialise-failed` and
 * `start-failed`: the message ends with PostgreSQL's own; `unsupported-platform`: no program runs here.
 */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  reason: Schema.Literals([
    "directory-in-use",
    "unreachable-directory",
    "initialise-failed",
    "start-failed",
    "unsupported-platform"
  ]),
  message: Schema.String
}) {}

/** Runs an operation of the file system; `purpose` completes the sentence "Cannot …" of its failure. */
export const attempt = <A>(
  reason: EmbeddedPostgresError["reason"],
  purpose: string,
  operation: () => A | Promise<A>
): Effect.Effect<A, EmbeddedPostgresError> =>
  Effect.tryPromise({
    try: async () => operation(),
    catch: (cause) =>
      new EmbeddedPostgresError({
        reason,
        message: `Cannot ${purpose}: ${cause instanceof Error ? cause.message : cause}`
      })
  })

/** Turns the failure to find a file into `undefined`. */
export const ifPresent = <A>(operation: Promise<A>): Promise<A | undefined> =>
  operation.catch((cause: unknown) => {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return undefined
    throw cause
  })

/** An account of the operating system that programs run as; `undefined` in its place means the account of this process. */
export interface OperatingSystemUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/** Who runs a program, and in which directory. */
export interface Runner {
  readonly user: OperatingSystemUser | undefined
  readonly directory: string
}

const inheritedVariables = new Set(["PATH", "LD_LIBRARY_PATH", "NIX_LD", "NIX_LD_LIBRARY_PATH"])

/**
 * How every program is started: in a session of its own, which ctrl-C in a terminal does not reach, and without the
 * service's environment, which holds secrets.
 */
export const programOptions = ({ user, directory }: Runner): SpawnOptions => ({
  ...(user && { uid: user.uid, gid: user.gid }),
  cwd: directory,
  detached: true,
  env: {
    LC_ALL: "C",
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => inheritedVariables.has(name)))
  }
})

/** The end of a program; without an exit code it could not be started, and `output` says why. */
interface ProgramResult {
  readonly exitCode: number | undefined
  readonly output: string
}

/** Runs a program to its end; interruption ends it and its children. */
export const run = (
  command: string,
  args: ReadonlyArray<string>,
  runner: Runner = { user: undefined, directory: "/" }
): Effect.Effect<ProgramResult> =>
  Effect.callback((resume) => {
    const child = spawn(command, args, { ...programOptions(runner), stdio: ["ignore", "pipe", "pipe"] })
    let output = ""
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (chunk: Buffer) => (output += chunk.toString()))
    child.once("error", (error) => resume(Effect.succeed({ exitCode: undefined, output: error.message })))
    child.once("close", (code) => resume(Effect.succeed({ exitCode: code ?? undefined, output: output.trim() })))
    return Effect.sync(() => child.pid !== undefined && sendSignal(-child.pid, "SIGKILL"))
  })

/** Signals a process, or with a negative id its whole group; false when it is gone or not ours. */
export const sendSignal = (processId: number, signal: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(processId, signal)
  } catch {
    return false
  }
}

/** The account of that name, when the system has it. */
export const userNamed = Effect.fnUntraced(function* (name: string) {
  const ids = yield* Effect.all([run("id", ["-u", name]), run("id", ["-g", name])])
  const [uid = Number.NaN, gid = Number.NaN] = ids.map((id) =>
    id.exitCode === 0 ? Number.parseInt(id.output, 10) | 0 : Number.NaN
  )
  return Number.isNaN(uid) || Number.isNaN(gid) ? undefined : { name, uid, gid }
})

/** The account that owns a file with these ids. */
export const userOwning = (owner: { readonly uid: number; readonly gid: number }): Effect.Effect<OperatingSystemUser> =>
  Effect.map(run("id", ["-nu", `${owner.uid}`]), (found) => ({
    name: found.exitCode === 0 ? found.output : `${owner.uid}`,
    uid: owner.uid | 0,
    gid: owner.gid | 0
  }))

/** Whether the kernel lets `user` enter a directory; asked of the kernel, since modes alone do not tell. */
export const mayEnter = (user: OperatingSystemUser, directory: string): Effect.Effect<boolean> =>
  Effect.map(
    run("/bin/sh", ["-c", 'cd "$1"', "sh", directory], { user, directory: "/" }),
    ({ exitCode }) => exitCode === 0
  )

/** Whether the system has assigned that process id, be it to a zombie. */
export const isTaken = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (cause) {
    return cause instanceof Error && "code" in cause && cause.code === "EPERM"
  }
}

/** The command line of the process with that id; `undefined` when there is none, or a zombie. */
export const findProcess = (pid: number): Effect.Effect<string | undefined> => {
  if (!isTaken(pid)) return Effect.undefined
  if (process.platform === "linux") return Effect.promise(() => readCommandLine(`/proc/${pid}`))
  return Effect.map(run("ps", ["-o", "args=", "-p", `${pid}`]), ({ output }) =>
    output === "" || output.endsWith("<defunct>") ? undefined : output
  )
}

const readCommandLine = async (directory: string) => {
  const stat = await fs.readFile(`${directory}/stat`, "utf8").catch(() => ") X")
  if (/\) [ZX][^)]*$/.test(stat)) return undefined
  return (await fs.readFile(`${directory}/cmdline`, "utf8").catch(() => "")).replaceAll("\0", " ").trimEnd()
}

const escalation = [
  ["SIGINT", "20 seconds"],
  ["SIGQUIT", "10 seconds"],
  ["SIGKILL", "5 seconds"]
] as const

/**
 * Ends a postmaster: a fast shutdown, which aborts transactions and saves what is committed, then an immediate one, then
 * by force. `ended` completes with the process; answers whether it did.
 */
export const endPostmaster = Effect.fnUntraced(function* (pid: number, ended: Effect.Effect<unknown>) {
  for (const [signal, patience] of escalation) {
    sendSignal(pid, signal)
    if (Option.isSome(yield* Effect.timeoutOption(ended, patience))) return true
  }
  return false
})
