import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Cause, Effect, Exit, Layer, Runtime } from "effect"
import { ServiceAccount } from "./auth/service-account.ts"
import { printBanner } from "./platform/banner.ts"
import { DatabaseLayer } from "./platform/connection.ts"
import * as Logging from "./platform/logging.ts"
import { Settings } from "./platform/settings.ts"
import * as Telemetry from "./platform/telemetry.ts"
import { serviceVersion } from "./platform/version.ts"
import { ServerLayer } from "./server.ts"

const Observability = Layer.unwrap(
  Effect.map(Settings, ({ environment, logging, telemetry }) =>
    Telemetry.layer({
      endpoint: telemetry.otlp.endpoint,
      headers: telemetry.otlp.headers,
      serviceName: telemetry.serviceName,
      serviceVersion,
      environment
    }).pipe(Layer.provideMerge(Logging.layer({ level: logging.level, format: logging.format })))
  )
)

const Banner = Layer.effectDiscard(Effect.flatMap(ServiceAccount, ({ madeKey }) => printBanner(madeKey)))

// Starting takes three times the memory that serving does; it is given back at once rather than some day.
const Settle = Layer.effectDiscard(
  Effect.sync(() => globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" }))
)

const Main = Layer.mergeAll(Banner, Settle).pipe(
  Layer.provide(ServerLayer),
  Layer.provide(DatabaseLayer),
  Layer.provide(Observability),
  Layer.provide(Settings.layer)
)

// The first signal drains; a second one is a person who will not wait.
let signals = 0
const onSignal = () => {
  signals += 1
  if (signals > 1) process.exit(130)
}
process.on("SIGINT", onSignal)
process.on("SIGTERM", onSignal)

// Whoever asked for the end got it: supervisors take any other code than 0 for a crash.
const teardown: Runtime.Teardown = (exit, onExit) =>
  signals > 0 && Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
    ? onExit(0)
    : Runtime.defaultTeardown(exit, onExit)

NodeRuntime.runMain(Layer.launch(Main), { teardown })
