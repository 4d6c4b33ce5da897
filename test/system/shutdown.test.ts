import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope } from "effect"
import { once } from "node:events"
import * as net from "node:net"
import { isLinux, processesWith, UsedDirectory } from "../support/embedded-postgres.ts"
import { listenTo } from "../support/event-source.ts"
import { configure, model, provider } from "../support/gateway.ts"
import { startProvider } from "../support/provider.ts"
import { exchange, requestText } from "../support/raw-http.ts"
import { startRealtimeVendor } from "../support/realtime-vendor.ts"
import { makeResponsesVendor } from "../support/responses-vendor.ts"
import { type ServiceProcess, startProcess, untilDatabaseGone } from "../support/service-process.ts"
import { serviceKey } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually, untilBlocked } from "../support/waiting.ts"
import { openSocket, refusedSocket } from "../support/web-socket.ts"

const ipAddress = "203.0.113.7"

let numbered = 0
const createUser = Effect.fnUntraced(function* (service: ServiceProcess) {
  const body = { firstName: "Ada", lastName: "Lovelace", email: `ada.${++numbered}@example.com` }
  const made = yield* service.call("POST", "/api/trial-users", { body })
  assert.strictEqual(made.status, 201, made.text)
  const id: number = made.body.id
  return id
})

/** Holds the row of a user, so that opening a session waits until it is released or the test ends. */
const hold = Effect.fnUntraced(function* (service: ServiceProcess, userId: number) {
  const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
  const held = yield* Effect.forkIn(
    asSuperuser(service.database, (sql) =>
      sql.withTransaction(Effect.andThen(sql`SELECT FROM trial_users WHERE id = ${userId} FOR UPDATE`, Effect.never))
    ),
    scope
  )
  yield* eventually(
    asSuperuser(
      service.database,
      (sql) => sql`SELECT FROM pg_locks WHERE relation = 'trial_users'::regclass AND mode = 'RowShareLock' AND granted`
    ),
    (locks) => locks.length > 0
  )
  return { release: Effect.exit(Fiber.interrupt(held)) }
})

const blocked = (service: ServiceProcess) => asSuperuser(service.database, (sql) => untilBlocked(sql))

/** A watch of a file of the configuration, which lasts until somebody ends it. */
const watch = Effect.fnUntraced(function* (service: ServiceProcess) {
  const application = yield* service.call("POST", "/api/applications", { body: { name: `watched ${++numbered}` } })
  assert.strictEqual(application.status, 201, application.text)
  const file = { applicationId: application.body.id, name: "a.txt", type: "file", content: "1" }
  const made = yield* service.call("POST", "/api/configuration", { body: file })
  assert.strictEqual(made.status, 201, made.text)
  const source = yield* listenTo({ ...service, serviceKey }, `/api/configuration/${made.body.id}/watch`)
  yield* source.until(1)
  return source
})

/** A connection on which a request was answered; `again` sends another one, and waits until the service has closed it. */
const keptAlive = Effect.fnUntraced(function* (service: ServiceProcess) {
  const { hostname, port } = new URL(service.url)
  const socket = yield* Effect.acquireRelease(
    Effect.sync(() => net.connect(Number(port), hostname)),
    (socket) => Effect.sync(() => socket.destroy())
  )
  socket.write(requestText("GET", "/health"))
  yield* Effect.promise(() => once(socket, "data"))
  const again = Effect.promise(async () => {
    socket.write(requestText("GET", "/health"))
    return (await socket.setEncoding("latin1").toArray()).join("")
  })
  return { again }
})

const isRefused = (service: ServiceProcess) =>
  Effect.map(Effect.exit(service.call("GET", "/health", { headers: { connection: "close" } })), Exit.isFailure)

layer(UsedDirectory.layer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a service that is asked to end",
  (it) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      it.effect.runIf(isLinux)(
        `${signal}: what is in flight is answered, nothing new is taken, the database ends too, and the exit code is 0`,
        () =>
          Effect.gen(function* () {
            const directory = yield* UsedDirectory
            const service = yield* startProcess(directory)
            const userId = yield* createUser(service)
            const { release } = yield* hold(service, userId)
            const body = { trialUserId: userId, ipAddress }
            const inFlight = yield* Effect.forkScoped(service.call("POST", "/api/sessions", { body }))
            const idle = yield* Effect.forkScoped(
              exchange(service.url, requestText("GET", "/health"), { untilClosed: true })
            )
            yield* blocked(service)
            yield* service.signal(signal)
            yield* eventually(isRefused(service), (refused) => refused)
            yield* blocked(service)
            yield* release
            const answer = yield* Fiber.join(inFlight)
            assert.strictEqual(answer.status, 201, answer.text)
            // Kept open, the connection would keep the service from its end.
            assert.strictEqual(answer.headers.get("connection"), "close")
            assert.strictEqual((yield* Fiber.join(idle)).answers[0]?.status, 200)
            assert.strictEqual(yield* service.ended, 0, service.output())
            assert.deepStrictEqual(yield* processesWith(directory), [])

            const again = yield* startProcess(directory)
            assert.strictEqual((yield* again.call("GET", `/api/sessions/${answer.body.id}`)).body.trialUserId, userId)
          }),
        120_000
      )
    }

    it.effect.runIf(isLinux)(
      "while it drains it is not ready, serves requests on old and new connections, and asks to close them",
      () =>
        Effect.gen(function* () {
          const service = yield* startProcess(yield* UsedDirectory, { Api__DrainSeconds: "3600" })
          const watched = yield* watch(service)
          const kept = yield* keptAlive(service)
          yield* service.signal("SIGTERM")
          const notReady = yield* eventually(service.call("GET", "/health/ready"), ({ status }) => status === 503)
          assert.deepInclude(notReady.body.checks, { name: "draining", ready: false, detail: "shutting down" })
          assert.strictEqual(notReady.headers.get("connection"), "close")
          const body = { firstName: "Ada", lastName: "Lovelace", email: `ada.${++numbered}@example.com` }
          const made = yield* service.call("POST", "/api/trial-users", { body })
          assert.strictEqual(made.status, 201, made.text)
          assert.strictEqual(made.headers.get("connection"), "close")
          const answer = yield* kept.again
          assert.match(answer, /^HTTP\/1.1 200 OK\r\n/)
          assert.match(answer, /\r\nconnection: close\r\n/i)
          // What lasts is not cut off: a client that came back would find this replica for as long as it is listed.
          assert.isUndefined(watched.ended())
          const late = yield* watch(service)
          assert.isUndefined(late.ended())
          yield* service.signal("SIGTERM")
          assert.strictEqual(yield* service.ended, 130)
        }).pipe(Effect.scoped),
      120_000
    )

    it.effect.runIf(isLinux)(
      "after it has drained streams without an end stop, and it ends with the requests in progress",
      () =>
        Effect.gen(function* () {
          const directory = yield* UsedDirectory
          const service = yield* startProcess(directory, { Api__DrainSeconds: "1", Api__ShutdownSeconds: "3600" })
          const userId = yield* createUser(service)
          const watched = yield* watch(service)
          const { release } = yield* hold(service, userId)
          const body = { trialUserId: userId, ipAddress }
          yield* service.signal("SIGTERM")
          yield* eventually(service.call("GET", "/health/ready"), ({ status }) => status === 503)
          const begunLate = yield* Effect.forkScoped(service.call("POST", "/api/sessions", { body }))
          yield* blocked(service)
          yield* eventually(isRefused(service), (refused) => refused)
          yield* eventually(Effect.sync(watched.ended), (end) => end !== undefined)
          assert.strictEqual(watched.ended(), "cleanly")
          yield* release
          assert.strictEqual((yield* Fiber.join(begunLate)).status, 201)
          assert.strictEqual(yield* service.ended, 0, service.output())
          assert.deepStrictEqual(yield* processesWith(directory), [])
        }).pipe(Effect.scoped),
      120_000
    )

    it.effect.runIf(isLinux)(
      "after it has drained it closes WebSockets with 1001, each after its response, and takes no new ones meanwhile",
      () =>
        Effect.gen(function* () {
          const service = yield* startProcess(yield* UsedDirectory, {
            Api__DrainSeconds: "1",
            Api__ShutdownSeconds: "3600"
          })
          const vendor = makeResponsesVendor()
          const held: Array<() => void> = []
          const standIn = yield* startProvider((request, response) => void held.push(() => vendor(request, response)))
          yield* configure(service, [provider("re", standIn, { apis: ["responses"] })], [model("gpt", ["re"])])
          const headers = { authorization: `Bearer ${serviceKey}` }
          const idle = yield* openSocket(service.url, headers)
          const busy = yield* openSocket(service.url, headers)
          busy.send({ type: "response.create", model: "gpt", input: "Hello" })
          yield* eventually(
            Effect.sync(() => held.length),
            (count) => count === 1
          )
          yield* service.signal("SIGTERM")
          yield* eventually(
            Effect.exit(refusedSocket(service.url, headers)),
            (exit) => Exit.isSuccess(exit) && exit.value.status === 426
          )
          assert.strictEqual((yield* idle.closed).code, 1001)
          yield* eventually(isRefused(service), (refused) => refused)
          assert.strictEqual(busy.socket.readyState, busy.socket.OPEN)
          held[0]!()
          let last = yield* busy.next
          while (last.type !== "response.completed") last = yield* busy.next
          assert.strictEqual((yield* busy.closed).code, 1001)
          assert.strictEqual(yield* service.ended, 0, service.output())
        }).pipe(Effect.scoped),
      120_000
    )

    it.effect.runIf(isLinux)(
      "a client that does not answer the end of its WebSocket, or a response without one, does not keep the service from its own",
      () =>
        Effect.gen(function* () {
          const service = yield* startProcess(yield* UsedDirectory, { Api__ShutdownSeconds: "1" })
          const standIn = yield* startProvider(() => {})
          yield* configure(service, [provider("re", standIn, { apis: ["responses"] })], [model("gpt", ["re"])])
          const headers = { authorization: `Bearer ${serviceKey}` }
          const silent = yield* openSocket(service.url, headers)
          silent.socket.pause()
          // One with a response that does not end either.
          const busy = yield* openSocket(service.url, headers)
          busy.send({ type: "response.create", model: "gpt", input: "Hello" })
          yield* eventually(
            Effect.sync(() => standIn.requests.length),
            (count) => count === 1
          )
          busy.socket.pause()
          yield* service.signal("SIGTERM")
          assert.strictEqual(yield* service.ended, 0, service.output())
        }).pipe(Effect.scoped),
      120_000
    )

    it.effect.runIf(isLinux)(
      "after it has drained it ends realtime sessions, each after its response and with its transcriptions charged",
      () =>
        Effect.gen(function* () {
          const directory = yield* UsedDirectory
          const service = yield* startProcess(directory, { Api__DrainSeconds: "1", Api__ShutdownSeconds: "3600" })
          const vendor = yield* startRealtimeVendor()
          const prices = { inputUsdPerMTok: 1, outputUsdPerMTok: 1 }
          yield* configure(
            service,
            [provider("rt", vendor, { apiKey: "sk-realtime", apis: ["realtime", "transcriptions"] })],
            [
              model("voice", ["rt"], { kind: "realtime", prices, contextTokens: 1000, maxOutputTokens: 100 }),
              {
                id: "whisper",
                kind: "transcription",
                prices: { inputUsdPerMTok: 0, outputUsdPerMTok: 0, audioSecondUsd: 0.0001 },
                targets: [{ provider: "rt", model: "upstream-whisper" }]
              }
            ]
          )
          const headers = { authorization: `Bearer ${serviceKey}` }
          const session = { type: "realtime", audio: { input: { transcription: { model: "whisper" } } } }
          const open = openSocket(service.url, headers, "/v1/realtime?model=voice")
          const [idle, busy] = [yield* open, yield* open]
          for (const socket of [idle, busy]) {
            socket.send({ type: "session.update", session })
            socket.send({ type: "input_audio_buffer.append", audio: Buffer.alloc(48_000, 7).toString("base64") })
            socket.send({ type: "input_audio_buffer.commit" })
            let last = yield* socket.next
            while (!last.type.endsWith("input_audio_transcription.completed")) last = yield* socket.next
          }
          vendor.faults = { holdsEnd: true }
          busy.send({ type: "response.create" })
          while ((yield* busy.next).type !== "response.created");
          yield* service.signal("SIGTERM")
          assert.strictEqual((yield* idle.closed).code, 1001)
          assert.strictEqual(busy.socket.readyState, busy.socket.OPEN)
          busy.send({ type: "response.cancel" })
          let last = yield* busy.next
          while (last.type !== "response.done") last = yield* busy.next
          assert.strictEqual((yield* busy.closed).code, 1001)
          assert.strictEqual(yield* service.ended, 0, service.output())
          const again = yield* startProcess(directory, {})
          const { body } = yield* again.call("GET", "/api/usage?limit=10")
          const made = body.items.filter(({ provider: of }: { readonly provider: string }) => of === "rt")
          assert.deepStrictEqual(
            made.map(({ method, operation }: Readonly<Record<string, string>>) => `${operation} ${method}`).toSorted(),
            ["realtime provider_usage", "transcribe provider_usage", "transcribe provider_usage"]
          )
        }).pipe(Effect.scoped),
      120_000
    )

    it.effect.runIf(isLinux)(
      "a second signal ends it at once, whatever is in flight; the database ends too",
      () =>
        Effect.gen(function* () {
          const directory = yield* UsedDirectory
          const service = yield* startProcess(directory)
          const userId = yield* createUser(service)
          yield* hold(service, userId)
          const body = { trialUserId: userId, ipAddress }
          const inFlight = yield* Effect.forkScoped(Effect.exit(service.call("POST", "/api/sessions", { body })))
          yield* blocked(service)
          yield* service.signal("SIGTERM")
          yield* eventually(isRefused(service), (refused) => refused)
          yield* service.signal("SIGTERM")
          assert.strictEqual(yield* service.ended, 130)
          assert.isTrue(Exit.isFailure(yield* Fiber.join(inFlight)))
          yield* untilDatabaseGone(directory)
        }),
      120_000
    )

    it.effect.runIf(isLinux)(
      "what does not end in its time is stopped",
      () =>
        Effect.gen(function* () {
          const directory = yield* UsedDirectory
          const service = yield* startProcess(directory, { Api__ShutdownSeconds: "1" })
          const userId = yield* createUser(service)
          yield* hold(service, userId)
          const body = { trialUserId: userId, ipAddress }
          const inFlight = yield* Effect.forkScoped(Effect.exit(service.call("POST", "/api/sessions", { body })))
          yield* blocked(service)
          yield* service.signal("SIGTERM")
          assert.strictEqual(yield* service.ended, 0, service.output())
          const answer = yield* Fiber.join(inFlight)
          assert.isTrue(Exit.isFailure(answer) || answer.value.status === 503)
          assert.deepStrictEqual(yield* processesWith(directory), [])
        }),
      120_000
    )
  }
)
