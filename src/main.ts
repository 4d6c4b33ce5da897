import "./platform/runtime/json-parse.ts"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Cause, Effect, Exit, Layer, Option, Runtime, Schedule } from "effect"
import { HttpServer } from "effect/http"
import { performance } from "node:perf_hooks"
import { ServiceAccount } from "./access/service-account.ts"
import { printBanner } from "./cli/banner.ts"
import { runOrHelp } from "./cli/help.ts"
import { explained } from "./cli/start-failure.ts"
import { ClaimLinks } from "./people/sign-in/initial-admin-setup.ts"
import { DatabaseLayer } from "./platform/database/connection.ts"
import * as Platform from "./platform/layers.ts"
import { Settings } from "./platform/settings/settings.ts"
import { makeDemo } from "./sandbox/demo/demo.ts"
import { demoSettings } from "./sandbox/demo/settings.ts"
import { ServerLayer } from "./server.ts"

const isDemo = process.argv.includes("--demo")
const words = process.argv.slice(2).filter((word) => word !== "--demo")

const Banner = Layer.effectDiscard(
  Effect.gen(function* () {
    const { api, environment } = yield* Settings
    const { firstKey } = yield* ServiceAccount
    const { isClaimed, make } = yield* ClaimLinks
    const madeKey = yield* firstKey
    // What is printed in Production is collected and stored.
    const isShown = environment === "Development"
    yield* printBanner({ madeKey, claimLink: isShown ? yield* make : Option.none() })
    if (!isShown && !(yield* isClaimed)) {
      yield* Effect.logInfo("There is no account yet; `npm run operator -- claim` prints a link that creates the first")
    }
    if (isDemo) {
      const { address } = yield* HttpServer.HttpServer
      yield* makeDemo(HttpServer.formatAddress(address), Option.firstSomeOf([madeKey, api.apiKey]))
    }
  })
)

const Stopping = Layer.effectDiscard(
  Effect.flatMap(Settings, ({ api }) => {
    const drain = api.drainSeconds === 0 ? "" : `new requests are served for ${api.drainSeconds} s, and `
    const finish = `requests in progress ${drain === "" ? "" : "then "}have ${api.shutdownSeconds} s to finish`
    return Effect.addFinalizer(() => Effect.logInfo(`Stopping; ${drain}${finish}`))
  })
)

// A start that failed says why instead.
const Stopped = Layer.effectDiscard(
  Effect.addFinalizer((exit) =>
    Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause)
      ? Effect.logInfo("The service has stopped")
      : Effect.void
  )
)

const quietUtilization = 0.05
const keptBytes = 64 * 2 ** 20

// Starting takes three times the memory that serving does, and many requests twice: it is given back at once, and when few
// requests arrive, rather than some day. V8 keeps it for as long as jobs go on to allocate a little.
const Settle = Layer.effectDiscard(
  Effect.gen(function* () {
    const settle = Effect.sync(() => {
      globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" })
      return process.memoryUsage.rss()
    })
    let settled = yield* settle
    let last = performance.eventLoopUtilization()
    const settleWhereQuiet = Effect.gen(function* () {
      const now = performance.eventLoopUtilization()
      const { utilization } = performance.eventLoopUtilization(now, last)
      last = now
      if (utilization < quietUtilization && process.memoryUsage.rss() > settled + keptBytes) settled = yield* settle
    })
    yield* Effect.forkScoped(Effect.repeat(settleWhereQuiet, Schedule.spaced("20 seconds")))
  })
)

// Looked up at once: a parent that ends while the service starts is followed too.
const parent = process.ppid

// npm runs scripts in a shell that forwards no signals, so the end of that shell is treated as a signal.
const FollowParent = Layer.effectDiscard(
  Effect.gen(function* () {
    if (process.env.npm_lifecycle_event === undefined) return
    yield* Effect.sync(() => process.ppid !== parent).pipe(
      Effect.repeat({ until: (hasEnded) => hasEnded, schedule: Schedule.spaced("500 millis") }),
      Effect.andThen(Effect.sync(() => process.kill(process.pid, "SIGTERM"))),
      Effect.forkScoped
    )
  })
)

const Main = Layer.mergeAll(Banner, Settle, FollowParent, Stopping).pipe(
  Layer.provide(ServerLayer),
  Layer.provide(DatabaseLayer),
  Layer.provide(Platform.layerListener),
  Layer.provide(Stopped),
  Layer.provide(Platform.layerObservability),
  Layer.provide(isDemo ? demoSettings(words) : Settings.layerWith(words))
)

// The first signal begins the shutdown; a second one exits at once.
let signals = 0
const onSignal = () => {
  signals += 1
  if (signals > 1) process.exit(130)
}
process.on("SIGINT", onSignal)
process.on("SIGTERM", onSignal)

// A shutdown on request is a success: supervisors treat any exit code other than 0 as a crash.
const teardown: Runtime.Teardown = (exit, onExit) =>
  signals > 0 && Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
    ? onExit(0)
    : Runtime.defaultTeardown(exit, onExit)

runOrHelp(() => NodeRuntime.runMain(explained()(Layer.launch(Main)), { teardown }))
