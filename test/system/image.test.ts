import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { cpSync } from "node:fs"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { urlOf } from "../support/command.ts"
import { makeDatabase } from "../support/database.ts"
import { project } from "../support/embedded-postgres.ts"
import { caller, encryptionKey, serviceKey } from "../support/service.ts"

const dockerfile = await fs.readFile(path.join(project, "deploy/Dockerfile"), "utf8")
const [, command = "[]"] = /^CMD (\[.*\])$/m.exec(dockerfile) ?? []
const [program, ...words]: ReadonlyArray<string> = JSON.parse(command)

/** What the image leaves out of packages. */
const deleted = Array.from(dockerfile.matchAll(/-name '\*(\.\w+)'/g), ([, end = ""]) => end)

/** Of distroless/cc-debian13, uncompressed, with room for what it may grow by. */
const baseBytes = 30e6
const mostBytes = 250e6

/** The packages that `npm ci --omit=dev --omit=optional` installs, by their folders. */
const installed = async (): Promise<ReadonlyArray<string>> => {
  const { packages } = JSON.parse(await fs.readFile(path.join(project, "package-lock.json"), "utf8"))
  return Object.keys(packages).filter(
    (folder) => folder !== "" && !packages[folder].dev && !packages[folder].optional && !packages[folder].devOptional
  )
}

const isKeptOfPackage = (file: string) =>
  !file.split(path.sep).includes("node_modules") && !deleted.some((end) => file.endsWith(end))

/** As .dockerignore has it. */
const isSent = (file: string) => !/\.(?:md|jpg)$/.test(file)

/** A folder with what the image has in /app, from the packages that are installed here. */
const makeApp = Effect.acquireRelease(
  Effect.promise(async () => {
    const app = await fs.mkdtemp(path.join(project, "dist/image-"))
    const copy = (name: string, isKept: (file: string) => boolean): void => {
      const from = path.join(project, name)
      cpSync(from, path.join(app, name), { recursive: true, filter: (file) => isKept(path.relative(from, file)) })
    }
    for (const folder of await installed()) copy(folder, isKeptOfPackage)
    for (const name of ["package.json", "migrations", "src", "dist/console"]) copy(name, isSent)
    return app
  }),
  (app) => Effect.promise(() => fs.rm(app, { recursive: true }))
)

const bytesIn = async (folder: string): Promise<number> => {
  const entries = await fs.readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(
    files.map(async (file) => (await fs.stat(path.join(file.parentPath, file.name))).size)
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** Runs a command of the image in its folder. */
const run = (app: string, args: ReadonlyArray<string>, environment: Record<string, string>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(process.execPath, args, {
        cwd: app,
        stdio: ["ignore", "pipe", "inherit"],
        env: { NODE_ENV: "production", ...environment }
      })
      const ended = new Promise<number | null>((resolve) => child.once("exit", resolve))
      return { child, ended }
    }),
    ({ child, ended }) =>
      Effect.promise(() => {
        child.kill("SIGKILL")
        return ended
      })
  )

it.live(
  "what the image has is enough to migrate and to serve, and small",
  () =>
    Effect.gen(function* () {
      const app = yield* makeApp
      const own = yield* Effect.promise(() => bytesIn(app))
      const node = (yield* Effect.promise(() => fs.stat(process.execPath))).size
      const total = own + node + baseBytes
      assert.isBelow(total, mostBytes, `${own} of packages and sources, ${node} of Node`)

      assert.strictEqual(program, "node")
      const environment = {
        Api__Port: "0",
        Api__Host: "127.0.0.1",
        Api__ApiKey: serviceKey,
        Database__Url: urlOf(yield* makeDatabase),
        Security__EncryptionKey: encryptionKey
      }
      // All that the Job of the chart gets.
      const { Database__Url } = environment
      const migration = yield* run(app, ["src/cli/migrate.ts"], { APP_ENVIRONMENT: "Production", Database__Url })
      assert.strictEqual(yield* Effect.promise(() => migration.ended), 0)
      const { child } = yield* run(app, words, environment)
      const url = yield* Effect.callback<string>((resume) => {
        let output = ""
        child.stdout.on("data", (chunk: Buffer) => {
          output += chunk.toString()
          const found = /serves on (http:[^\s"]+)/.exec(output)?.[1]
          if (found !== undefined) resume(Effect.succeed(found))
        })
      })
      const call = caller(url)
      assert.strictEqual((yield* call("GET", "/health/ready")).status, 200)
      assert.strictEqual((yield* call("GET", "/console")).status, 200)
      const trials = yield* call("GET", "/api/trial-users")
      assert.strictEqual(trials.status, 200, trials.text)
    }).pipe(Effect.scoped),
  120_000
)
