import { Context, Effect, type Scope } from "effect"
import * as fs from "node:fs/promises"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { attempt, type EmbeddedPostgresError } from "./error.ts"
import { type Home, ifPresent } from "./home.ts"

/** Where a server listens: `host` is a directory with its Unix socket, or 127.0.0.1. */
export interface Endpoint {
  readonly host: string
  readonly port: number
}

/** Chooses a TCP port of 127.0.0.1 that was free a moment ago. */
export const FreePort = Context.Reference<Effect.Effect<number, EmbeddedPostgresError>>(
  "app/platform/embedded-postgres-endpoint/FreePort",
  {
    defaultValue: () =>
      attempt(
        "start-failed",
        "find a free port",
        () =>
          new Promise<number>((resolve, reject) => {
            const server = net.createServer().once("error", reject)
            server.listen(0, "127.0.0.1", () => {
              const address = server.address()
              server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
            })
          })
      )
  }
)

type MakeEndpoint = Effect.Effect<Endpoint | undefined, EmbeddedPostgresError, Scope.Scope>

/**
 * The places to try in turn. A socket in a private directory is out of everybody's reach, but its path is short of
 * space and some mounted directories hold no sockets; then it is in a temporary directory, and failing that a port.
 */
export const endpoints = (home: Home): ReadonlyArray<MakeEndpoint> =>
  process.platform === "win32"
    ? [port, port, port]
    : [socketAtHome(home), socketInTemporaryDirectory(home), port, port, port]

const port = Effect.gen(function* () {
  return { host: "127.0.0.1", port: yield* yield* FreePort }
})

const socketPort = 5432
// sizeof(sockaddr_un.sun_path) is 108 on Linux and 104 on macOS, with the terminating NUL.
const isShortEnough = (directory: string) => Buffer.byteLength(`${directory}/.s.PGSQL.${socketPort}`) <= 103

const socketAtHome = (home: Home): MakeEndpoint =>
  Effect.suspend(() => {
    const directory = path.join(home.directory, "socket")
    if (!isShortEnough(directory)) return Effect.undefined
    return attempt("start-failed", `make ${directory}`, async () => {
      // The lock file of a dead server whose process id is taken again would keep PostgreSQL from listening.
      await fs.rm(directory, { recursive: true, force: true })
      await fs.mkdir(directory, { mode: 0o700 })
      return toEndpoint(home, directory)
    })
  })

const temporaryPrefix = "application-manager-"

const socketInTemporaryDirectory = (home: Home): MakeEndpoint =>
  Effect.suspend(() => {
    const note = path.join(home.directory, "socket-location")
    const prefix = path.join(os.tmpdir(), temporaryPrefix)
    if (!isShortEnough(`${prefix}XXXXXX`)) return Effect.undefined
    const remove = async () => {
      const left = await ifPresent(fs.readFile(note, "utf8"))
      if (left !== undefined && path.basename(left).startsWith(temporaryPrefix)) {
        await fs.rm(left, { recursive: true, force: true })
      }
      await fs.rm(note, { force: true })
    }
    return Effect.acquireRelease(
      attempt("start-failed", `make ${prefix}XXXXXX`, async () => {
        await remove()
        const directory = await fs.mkdtemp(prefix)
        await fs.writeFile(note, directory)
        return toEndpoint(home, directory)
      }),
      () => Effect.promise(() => remove().catch(() => undefined))
    )
  })

const toEndpoint = async (home: Home, directory: string): Promise<Endpoint> => {
  if (home.user !== undefined) await fs.chown(directory, home.user.uid, home.user.gid)
  return { host: directory, port: socketPort }
}
