import { Context, Effect, Layer, Logger, Option, Scope } from "effect"
import { HttpServer } from "effect/http"
import * as http from "node:http"
import { inject } from "vitest"
import { PasswordCost } from "../../src/people/accounts/passwords.ts"
import { besides, DatabaseConnection, poolWith } from "../../src/platform/database/connection.ts"
import { addressIn } from "../../src/platform/database/hosts.ts"
import * as Platform from "../../src/platform/layers.ts"
import { Settings } from "../../src/platform/settings/settings.ts"
import { ServerLayer } from "../../src/server.ts"
import { type BodyOf, type Untyped } from "./answers.ts"
import { makeDatabase, type TestDatabase } from "./database.ts"

/** An answer with its body read: parsed when it is JSON, text otherwise. */
export interface Answer<out Body = Untyped> {
  readonly status: number
  readonly headers: Headers
  readonly body: Body
  readonly text: string
}

export interface Call {
  readonly body?: unknown
  /** The API key sent; the service account's when absent, none when null. */
  readonly key?: string | null
  readonly headers?: Record<string, string>
}

interface RunningService {
  readonly url: string
  readonly serviceKey: string
  readonly database: TestDatabase
  /** Another replica with the same settings, the same one for every test: it starts with the first that asks. */
  readonly replica: Effect.Effect<RunningService>
  call<const Method extends string, const Path extends string>(
    method: Method,
    path: Path,
    call?: Call
  ): Effect.Effect<Answer<BodyOf<NoInfer<Method>, NoInfer<Path>>>>
}

/** The whole service on a database of its own and a free loopback port, spoken to over HTTP. */
export class TestService extends Context.Service<TestService, RunningService>()("test/TestService") {}

/** What secrets at rest are sealed under in tests. */
export const encryptionKey = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
export const serviceKey = "test-service-account-key-of-some-length"

const databaseLayer = (database: TestDatabase) =>
  poolWith().pipe(
    Layer.provideMerge(
      Layer.effect(
        DatabaseConnection,
        Effect.map(Settings, (settings) =>
          DatabaseConnection.of({
            options: Option.match(settings.database.url, {
              onNone: () => database,
              onSome: (url) => addressIn("Database:Url", url, true)
            }),
            ...besides(settings.database),
            embeddedIn: Option.none()
          })
        )
      )
    )
  )

declare module "vitest" {
  interface ProvidedContext {
    /** The size of the pools of services; the default where a project gives none. */
    readonly maxConnections: string | undefined
  }
}

const settingsLayer = (environment: Record<string, string>) => {
  const maxConnections = inject("maxConnections")
  return Settings.layerMemory({
    environment: {
      Api__Port: "0",
      Api__ApiKey: serviceKey,
      Api__RateLimit__Enabled: "false",
      ...(maxConnections === undefined ? {} : { Database__MaxConnections: maxConnections }),
      Security__EncryptionKey: encryptionKey,
      ...environment
    }
  })
}

/** What passwords cost the services of tests: less, since most tests hash them only to sign in. */
export const TestPasswordCost = Context.Reference<PasswordCost>("test/PasswordCost", {
  defaultValue: () => ({ memory: 8, passes: 1, parallelism: 1 })
})

// `fetch` takes several times the processor time.
const connections = new http.Agent({ keepAlive: true })

export const caller =
  (url: string) =>
  <const Method extends string, const Path extends string>(
    method: Method,
    path: Path,
    { body, headers, key = serviceKey }: Call = {}
  ): Effect.Effect<Answer<BodyOf<NoInfer<Method>, NoInfer<Path>>>> => {
    const sent = body === undefined || typeof body === "string" ? body : JSON.stringify(body)
    return exchange(
      new URL(`${url}${path}`),
      {
        method,
        agent: connections,
        headers: {
          accept: "*/*",
          "user-agent": "node",
          ...(key === null ? {} : { "x-api-key": key }),
          ...(sent === undefined
            ? {}
            : { "content-type": "application/json", "content-length": Buffer.byteLength(sent) }),
          ...lowerCased(headers)
        }
      },
      sent
    )
  }

const exchange = (url: URL, options: http.RequestOptions, body: string | undefined): Effect.Effect<Answer> =>
  Effect.callback((resume) => {
    let request: http.ClientRequest
    const fail = (error: Error) => resume(Effect.die(error))
    const send = () => {
      request = http.request(url, options)
      request.on("error", (error: NodeJS.ErrnoException) => {
        // The server may close an idle connection just when it is taken for the next request.
        if (request.reusedSocket && error.code === "ECONNRESET") send()
        else fail(error)
      })
      request.once("response", receive)
      request.end(body)
    }
    const receive = (response: http.IncomingMessage) => {
      const type = response.headers["content-type"] ?? ""
      const answer = (text: string) =>
        resume(
          Effect.sync(() => ({
            status: response.statusCode ?? 0,
            headers: headersOf(response),
            text,
            body: /\bjson\b/.test(type) && text !== "" ? JSON.parse(text) : text
          }))
        )
      request.removeAllListeners("error").on("error", fail)
      response.on("error", fail)
      // A stream of events has no end to wait for: its head is the answer.
      if (type === "text/event-stream") {
        answer("")
        request.destroy()
        return
      }
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => void chunks.push(chunk))
      response.once("end", () => answer(Buffer.concat(chunks).toString("utf8")))
    }
    send()
    return Effect.sync(() => void request.destroy())
  })

const lowerCased = (headers: Record<string, string> = {}) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

const headersOf = ({ rawHeaders }: http.IncomingMessage) => {
  const headers = new Headers()
  for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "")
  return headers
}

/** A running service on a given database, and what it is made of. Its log goes nowhere but to `loggers`. */
export const startServer = (
  database: TestDatabase,
  environment: Record<string, string> = {},
  loggers: ReadonlyArray<Logger.Logger<unknown, unknown>> = []
) =>
  Effect.gen(function* () {
    const context = yield* Layer.build(
      ServerLayer.pipe(
        Layer.provide(databaseLayer(database)),
        Layer.provide(Platform.layerListener),
        Layer.provide(settingsLayer(environment)),
        Layer.provide(Layer.effect(PasswordCost, TestPasswordCost)),
        Layer.provide(Logger.layer(loggers))
      )
    )
    const { address } = Context.get(context, HttpServer.HttpServer)
    const url = HttpServer.formatAddress(address)
    const replica = yield* cachedReplica(database, environment, loggers)
    return { context, service: TestService.of({ url, serviceKey, database, replica, call: caller(url) }) }
  })

/** A running service on a given database, spoken to over HTTP; several on one database are replicas. */
export const startService = (
  ...options: Parameters<typeof startServer>
): Effect.Effect<TestService["Service"], unknown, Scope.Scope> =>
  Effect.map(startServer(...options), ({ service }) => service)

/** One that starts when it is first asked for, and ends with the scope. */
const cachedReplica = (...options: Parameters<typeof startServer>) =>
  Effect.flatMap(Effect.scope, (scope) => Effect.cached(Effect.orDie(Scope.provide(startService(...options), scope))))

const startOnNewDatabase = (environment?: Record<string, string>) =>
  Effect.flatMap(makeDatabase, (database) => Effect.orDie(startService(database, environment)))

let shared: Promise<TestService["Service"]> | undefined

/**
 * The service with default settings that files of a worker share, for tests that look only at what they made themselves
 * and change nothing that others look at; it ends with the worker, and its database with the run. Its replica ends with
 * the file: what a service does by itself costs more in a run than a few starts.
 */
export const sharedServiceLayer = Layer.effect(
  TestService,
  Effect.gen(function* () {
    const service = yield* Effect.promise(
      () => (shared ??= Effect.runPromise(startOnNewDatabase().pipe(Scope.provide(Scope.makeUnsafe()))))
    )
    return TestService.of({ ...service, replica: yield* cachedReplica(service.database) })
  })
)

/** A service and a database of a file's own. */
export const serviceLayer = (environment: Record<string, string> = {}) =>
  Layer.effect(TestService, startOnNewDatabase(environment))
