import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as path from "node:path"
import { makeDirectory } from "../support/embedded-postgres.ts"
import { json, startProvider } from "../support/provider.ts"
import { startProcess } from "../support/service-process.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

it.live(
  "a service that runs loads nothing from its packages but Swagger UI, since npm ci may be replacing them",
  () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const provider = yield* startProvider((_, response) => json(response, 500, {}))
      const service = yield* startProcess(directory, { NODE_OPTIONS: "--import=./test/support/late-modules.ts" })
      const { call } = service
      yield* service.signal("SIGUSR2")
      yield* eventually(Effect.sync(service.output), (output) => output.includes("watching for late modules"))
      const html = { headers: { accept: "text/html" } }
      const answers = [
        yield* call("GET", "/", html),
        yield* call("GET", "/swagger"),
        yield* call("GET", "/swagger", html),
        yield* call("GET", "/problems"),
        yield* call("GET", "/metrics"),
        yield* call("GET", "/console/claim"),
        yield* call("GET", "/.well-known/jwks.json"),
        yield* call("POST", "/api/accounts", {
          body: { email: "ada@example.com", name: "Ada", password: "seven grey herons at dawn", roleIds: [] }
        }),
        yield* call("POST", "/api/auth/login", {
          body: { email: "ada@example.com", password: "seven grey herons at dawn" }
        }),
        yield* call("POST", "/v1/chat/completions", {
          body: { model: "loopback-1", messages: [{ role: "user", content: "Hi" }] }
        }),
        yield* call("POST", "/api/llm/providers/test", {
          body: { id: "p", dialect: "openai", baseUrl: provider.url }
        })
      ]
      assert.isEmpty(answers.filter(({ status }) => status >= 500).map(({ text }) => text))
      const late = Array.from(service.output().matchAll(/^loaded late: (.*)$/gmu), ([, url = ""]) => path.basename(url))
      // Swagger UI waits for its packages when it is first opened, like a worker process.
      assert.deepStrictEqual(late, ["httpApiSwagger.js"])
      const [preloaded] = yield* asSuperuser(
        service.database,
        (sql) => sql`SELECT current_setting('shared_preload_libraries') AS libraries`
      )
      assert.deepStrictEqual(preloaded, { libraries: "plpgsql" })
    }).pipe(Effect.scoped),
  120_000
)
