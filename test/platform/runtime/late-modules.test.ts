import { assert, it } from "@effect/vitest"
import { Effect, Exit, Fiber } from "effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { pathToFileURL } from "node:url"
import { loadLate } from "../../../src/platform/runtime/packages.ts"
import { makeWorkerProcess } from "../../../src/platform/runtime/worker-process.ts"
import { eventually } from "../../support/waiting.ts"

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

it.live("a worker process whose packages are missing for a while starts when they are back", () =>
  Effect.gen(function* () {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "application-manager-worker-"))
    yield* Effect.addFinalizer(() => Effect.sync(() => fs.rmSync(directory, { recursive: true })))
    const module = path.join(directory, "worker.mjs")
    const attempts = path.join(directory, "attempts")
    fs.writeFileSync(
      module,
      `import { appendFileSync } from "node:fs"
appendFileSync(${JSON.stringify(attempts)}, "x")
const { word } = await import("./dependency.mjs")
process.on("message", () => process.send(word))
process.send("ready")`
    )
    const ask = yield* makeWorkerProcess<string, string>({ module: pathToFileURL(module), seconds: 5, megabytes: 64 })
    const asked = yield* Effect.forkScoped(ask("anyone", "word"))
    yield* eventually(
      Effect.sync(() => (fs.existsSync(attempts) ? fs.readFileSync(attempts, "utf8") : "")),
      (text) => text.length > 1
    )
    fs.writeFileSync(path.join(directory, "dependency.mjs"), 'export const word = "here again"')
    assert.strictEqual(yield* Fiber.join(asked), "here again")
  }).pipe(Effect.scoped)
)
