import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import { type AddressInfo } from "node:net"
import { makeDatabase } from "../support/database.ts"
import { startService } from "../support/service.ts"
import { eventually } from "../support/waiting.ts"

const program = "/usr/bin/redis-server"

const freePort = Effect.promise(
  () =>
    new Promise<number>((resolve) => {
      const server = net.createServer().listen(0, "127.0.0.1", () => {
        const { port } = server.address() as AddressInfo
        server.close(() => resolve(port))
      })
    })
)

const answers = (port: number) =>
  Effect.callback<boolean>((resume) => {
    const socket = net.connect(port, "127.0.0.1", () => resume(Effect.succeed(true)))
    socket.on("error", () => resume(Effect.succeed(false)))
    return Effect.sync(() => socket.destroy())
  })

/** A Redis that keeps nothing, on a free port, until the scope closes. */
const startRedis = Effect.gen(function* () {
  const port = yield* freePort
  yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(program, ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], {
        stdio: "ignore"
      })
    ),
    (redis) =>
      Effect.promise(() => {
        const ended = new Promise((resolve) => redis.once("exit", resolve))
        redis.kill()
        return ended
      })
  )
  yield* eventually(answers(port), (isThere) => isThere)
  return `redis://127.0.0.1:${port}`
})

it.live.runIf(fs.existsSync(program))("replicas share a count in Redis, and two installations do not", () =>
  Effect.gen(function* () {
    const settings = {
      Redis__Url: yield* startRedis,
      Api__RateLimit__Enabled: "true",
      Api__RateLimit__PerMinute: "4"
    }
    const [database, other] = [yield* makeDatabase, yield* makeDatabase]
    const start = (on: typeof database, publicUrl: string) =>
      startService(on, { ...settings, Api__PublicUrl: publicUrl })
    const first = yield* start(database, "https://one.example")
    const replica = yield* start(database, "https://one.example")
    const stranger = yield* start(other, "https://two.example")
    for (const service of [first, replica, first, replica]) {
      assert.strictEqual((yield* service.call("GET", "/api/tenants")).status, 200)
    }
    assert.strictEqual((yield* first.call("GET", "/api/tenants")).status, 429)
    assert.strictEqual((yield* replica.call("GET", "/api/tenants")).status, 429)
    assert.strictEqual((yield* stranger.call("GET", "/api/tenants")).status, 200)
  }).pipe(Effect.scoped)
)
