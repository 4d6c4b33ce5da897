import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import * as http from "node:http"
import * as path from "node:path"
import { makeDirectory, project } from "../support/embedded-postgres.ts"
import { accepts, freePort, serverProcess } from "../support/server-process.ts"
import { eventually } from "../support/waiting.ts"
import { settingsFrom } from "#src/platform/settings/settings.ts"

const program = ["/usr/sbin/haproxy", "/usr/bin/haproxy", "/usr/local/sbin/haproxy"].find((file) => fs.existsSync(file))
if (program === undefined) {
  process.stdout.write("The test of a load balancer that keeps keys together is skipped: no HAProxy was found.\n")
}

const manual = fs.readFileSync(path.join(project, "deploy/README.md"), "utf8")
const [, snippet = ""] = /^```haproxy\n([\s\S]*?)^```$/mu.exec(manual) ?? []

/** A server that says which one it is. */
const startServer = (name: string) =>
  Effect.acquireRelease(
    Effect.callback<http.Server>((resume) => {
      const server = http.createServer((_, response) => response.end(name))
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) =>
      Effect.sync(() => {
        server.close()
        server.closeAllConnections()
      })
  )

const portOf = (server: http.Server): number => {
  const address = server.address()
  return typeof address === "object" && address !== null ? address.port : 0
}

describe.runIf(program !== undefined)("HAProxy as the manual sets it up", () => {
  it.live("sends each key to one replica, and those of one that ends to others", () =>
    Effect.gen(function* () {
      const servers = yield* Effect.forEach(["one", "two", "three"], startServer)
      const backend = ["10.0.0.11", "10.0.0.12", "10.0.0.13"].reduce(
        (text, host, at) => text.replace(`${host}:11402`, `127.0.0.1:${portOf(servers[at]!)}`),
        snippet
      )
      const port = yield* freePort
      const file = path.join(yield* makeDirectory(), "haproxy.cfg")
      fs.writeFileSync(
        file,
        `defaults\n  mode http\n  timeout connect 1s\n  timeout client 1m\n  timeout server 1m\nfrontend all\n  bind 127.0.0.1:${port}\n  default_backend application-manager\n${backend}`
      )
      yield* serverProcess(program ?? "", ["-db", "-f", file])
      yield* eventually(accepts(port), (isUp) => isUp)
      const answered = (name: string, key: string) =>
        Effect.promise(() =>
          fetch(`http://127.0.0.1:${port}/v1/models`, { headers: { [name]: key } }).then((answer) => answer.text())
        )
      const keys = Array.from({ length: 60 }, (_, at) => `key-${at}`)
      for (const [name, prefix] of [
        ["authorization", "Bearer "],
        ["x-api-key", ""],
        ["x-goog-api-key", ""]
      ] as const) {
        const ask = (key: string) => answered(name, `${prefix}${key}`)
        const first = yield* Effect.forEach(keys, ask, { concurrency: 10 })
        assert.deepStrictEqual(yield* Effect.forEach(keys, ask, { concurrency: 10 }), first, name)
        assert.strictEqual(new Set(first).size, 3, name)
      }
      const before = yield* Effect.forEach(keys, (key) => answered("x-api-key", key))
      servers[1]?.close()
      servers[1]?.closeAllConnections()
      const after = yield* Effect.forEach(keys, (key) => answered("x-api-key", key))
      assert.deepStrictEqual([...new Set(after)].toSorted(), ["one", "three"])
      for (const [at, name] of before.entries()) if (name !== "two") assert.strictEqual(after[at], name, keys[at])
    }).pipe(Effect.scoped)
  )

  it.effect("leaves a replica out while it drains", () =>
    Effect.gen(function* () {
      const [, every, times] = /^ +default-server check inter (\d+)s fall (\d+)$/mu.exec(snippet) ?? []
      const { api } = yield* settingsFrom({
        environment: { APP_ENVIRONMENT: "Production", Api__ApiKey: "a".repeat(32) }
      })
      assert.isBelow(Number(every) * Number(times), api.drainSeconds)
    })
  )
})
