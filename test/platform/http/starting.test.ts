import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import type * as http from "node:http"
import type * as net from "node:net"
import { makeServer } from "../../../src/platform/http/listener.ts"
import { assertProblem } from "../../support/problem.ts"
import { caller } from "../../support/service.ts"

it.live("requests that arrive while the service starts are told to come back", () =>
  Effect.gen(function* () {
    const server = yield* Effect.acquireRelease(
      Effect.callback<http.Server>((resume) => {
        const server = makeServer({ requestTimeoutSeconds: 60, publicUrl: "http://localhost" })
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => server.close())
    )
    const { port } = server.address() as net.AddressInfo
    const call = caller(`http://127.0.0.1:${port}`)
    const early = yield* call("GET", "/health/ready")
    assertProblem(early, 503, "overloaded")
    assert.strictEqual(early.headers.get("retry-after"), "1")
    server.on("request", (_, response) => response.end("served"))
    assert.strictEqual((yield* call("GET", "/health/ready")).text, "served")
  }).pipe(Effect.scoped)
)
