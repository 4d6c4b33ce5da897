import { assert, it } from "@effect/vitest"
import { Effect, Exit, Fiber } from "effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { pathToFileURL } from "node:url"
import { loadLate } from "../../../src/platform/runtime/packages.ts"
import { makeThread } from "../../../src/platform/runtime/thread.ts"
import { makeDirectory } from "../../support/embedded-postgres.ts"
import { json, startProvider } from "../../support/provider.ts"
import { startProcess } from "../../support/service-process.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

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
        yield* call("GET", "/claim"),
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
      // Swagger UI waits for its packages when it is first opened, like a thread.
      assert.deepStrictEqual(late, ["httpApiSwagger.js"])
      const [preloaded] = yield* asSuperuser(
        service.database,
        (sql) => sql`SELECT current_setting('shared_preload_libraries') AS libraries`
      )
      assert.deepStrictEqual(preloaded, { libraries: "plpgsql" })
    }).pipe(Effect.scoped),
  120_000
)

const missing = () => import(pathToFileURL(path.join(os.tmpdir(), "no-such-module.mjs")).href)

it.live("what is loaded late waits until its packages are back", () =>
  Effect.gen(function* () {
    let attempts = 0
    const loaded = loadLate(() => (++attempts < 2 ? missing() : Promise.resolve("here again")))
    assert.strictEqual(yield* loaded, "here again")
    const failed = yield* Effect.exit(loadLate(() => Promise.reject(new Error("of its own"))))
    assert.isTrue(Exit.isFailure(failed))
  })
)

it.live("a thread whose packages are missing for a while starts when they are back", () =>
  Effect.gen(function* () {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "application-manager-thread-"))
    yield* Effect.addFinalizer(() => Effect.sync(() => fs.rmSync(directory, { recursive: true })))
    const module = path.join(directory, "worker.mjs")
    const attempts = path.join(directory, "attempts")
    fs.writeFileSync(
      module,
      `import { appendFileSync } from "node:fs"
import { parentPort } from "node:worker_threads"
appendFileSync(${JSON.stringify(attempts)}, "x")
const { word } = await import("./dependency.mjs")
parentPort.on("message", () => parentPort.postMessage(word))
parentPort.postMessage("ready")`
    )
    const ask = yield* makeThread<string, string>({ module: pathToFileURL(module), seconds: 5, megabytes: 64 })
    const asked = yield* Effect.forkScoped(ask("anyone", "word"))
    yield* eventually(
      Effect.sync(() => (fs.existsSync(attempts) ? fs.readFileSync(attempts, "utf8") : "")),
      (text) => text.length > 1
    )
    fs.writeFileSync(path.join(directory, "dependency.mjs"), 'export const word = "here again"')
    assert.strictEqual(yield* Fiber.join(asked), "here again")
  }).pipe(Effect.scoped)
)
