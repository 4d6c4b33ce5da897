import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as net from "node:net"
import { askExchange, assertOAuthError, makeAgent } from "../support/agents.ts"
import { makeDatabase } from "../support/database.ts"
import { assertProblem } from "../support/problem.ts"
import { make } from "../support/scenarios.ts"
import { type Answer, startService, type TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

type Service = TestService["Service"]

/** A server that takes every connection and never says a word. */
const makeSilent = Effect.gen(function* () {
  const sockets = new Set<net.Socket>()
  const server = net.createServer((socket) => {
    sockets.add(socket.on("error", () => {}).on("close", () => sockets.delete(socket)))
    socket.resume()
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () =>
      Effect.sync(() => {
        server.close()
        for (const socket of sockets) socket.destroy()
      })
  )
  return { at: `127.0.0.1:${(server.address() as net.AddressInfo).port}`, connections: () => sockets.size }
})

const settings = {
  Database__MaxConnections: "4",
  IdentityProviders__AllowPrivateAddresses: "true",
  Integrations__AllowPrivateAddresses: "true",
  Llm__Gateway__AllowPrivateAddresses: "true"
}
const atOnce = 12

const sink = (at: string) => ({ protocol: "HTTP", sink: `http://${at}/events`, types: ["com.example.created"] })

interface Neighbour {
  readonly name: string
  /** What waits for the server, made ready before. */
  readonly ask: (service: Service, at: string) => Effect.Effect<Effect.Effect<Answer>>
  readonly answers: (answer: Answer) => void
}

const post =
  (path: string, body: unknown, headers: Record<string, string> = {}) =>
  (service: Service) =>
    service.call("POST", path, { body, headers })

/** Each request under another key, since one key has one request under way. */
const keyed = (path: string, body: (at: string) => unknown): Neighbour["ask"] => {
  let key = 0
  return (service, at) =>
    Effect.succeed(Effect.suspend(() => post(path, body(at), { "idempotency-key": `${++key}` })(service)))
}
const plain =
  (path: string, body: (at: string) => unknown): Neighbour["ask"] =>
  (service, at) =>
    Effect.succeed(post(path, body(at))(service))

const workload = (at: string) => ({ kind: "workload", issuer: `https://${at}` })
const tested = (at: string) => ({ dialect: "openai", baseUrl: `http://${at}/v1`, apiKey: "sk-test" })
const discoveryFailed = (answer: Answer) => assertProblem(answer, 400, "discovery-failed")
const refusedSink = (answer: Answer) => {
  assert.strictEqual(answer.status, 201, answer.text)
  assert.strictEqual(answer.body.status, "refused")
}
const timedOut = (answer: Answer) => assertProblem(answer, 504, "provider-timeout")
const notOk = (answer: Answer) => {
  assert.strictEqual(answer.status, 200, answer.text)
  assert.deepInclude(answer.body, { ok: false, status: null })
}

/** A provider that was there when it was made. */
const makeProvider = (service: Service, members: Readonly<Record<string, unknown>>) =>
  asSuperuser(service.database, (sql) =>
    Effect.map(
      sql<{ readonly id: string }>`
        INSERT INTO identity_providers ${sql.insert({
          id: crypto.randomUUID(),
          scopes: "{openid}",
          allowed_algorithms: "{RS256}",
          claim_mapping: '{"email":"email","emailVerified":"email_verified","name":"name"}',
          domains: "{}",
          subjects: "{job}",
          default_role_ids: "{}",
          status: "active",
          created_at: new Date(),
          created_by: "system",
          updated_at: new Date(),
          ...members
        })} RETURNING id`,
      ([row]) => row?.id ?? assert.fail("no provider was made")
    )
  )

const neighbours: ReadonlyArray<Neighbour> = [
  {
    name: "an identity provider that is added",
    ask: plain("/api/identity-providers", workload),
    answers: discoveryFailed
  },
  { name: "the same under keys", ask: keyed("/api/identity-providers", workload), answers: discoveryFailed },
  {
    name: "an identity provider at a sign-in",
    ask: (service, at) =>
      Effect.map(makeProvider(service, { kind: "login", issuer: `https://${at}`, client_id: "x" }), (id) =>
        service.call("GET", `/api/auth/oidc/${id}/start`, { key: null })
      ),
    answers: (answer) => assertProblem(answer, 502, "identity-provider-unavailable")
  },
  {
    name: "an identity provider of a workload's token",
    ask: Effect.fnUntraced(function* (service, at) {
      yield* makeProvider(service, { kind: "workload", issuer: `https://${at}` })
      const agent = yield* makeAgent(service)
      const parts = [{ alg: "RS256" }, { iss: `https://${at}`, sub: "job" }].map((part) =>
        Buffer.from(JSON.stringify(part)).toString("base64url")
      )
      return askExchange(service, agent, `${parts.join(".")}.c2lnbmF0dXJl`)
    }),
    answers: (answer) => assertOAuthError(answer, 400, "invalid_request")
  },
  { name: "a sink that is subscribed", ask: plain("/api/cloudevents/subscriptions", sink), answers: refusedSink },
  { name: "the same under keys", ask: keyed("/api/cloudevents/subscriptions", sink), answers: refusedSink },
  {
    name: "a webhook that is tested",
    ask: (service, at) =>
      Effect.map(
        make(service, "/api/integrations", {
          kind: "webhook",
          name: "x",
          url: `http://${at}/`,
          eventTypes: ["com.example.x"]
        }),
        ({ id }) => service.call("POST", `/api/integrations/${id}/test`, {})
      ),
    answers: (answer) => {
      assert.strictEqual(answer.status, 200, answer.text)
      assert.include(answer.text, "did not answer")
    }
  },
  { name: "a provider of models that is tested", ask: plain("/api/llm/providers/test", tested), answers: notOk },
  { name: "the same under keys", ask: keyed("/api/llm/providers/test", tested), answers: notOk },
  {
    name: "a provider whose models are listed",
    ask: plain("/api/llm/providers/list-models", tested),
    answers: timedOut
  }
]

describe("a server that never answers keeps no request but its own", () => {
  for (const { answers, ask, name } of neighbours) {
    it.live(name, () =>
      Effect.gen(function* () {
        const database = yield* makeDatabase
        const silent = yield* makeSilent
        const service = yield* startService(database, settings)
        const one = yield* ask(service, silent.at)
        const waiting = yield* Effect.forkChild(
          Effect.all(
            Array.from({ length: atOnce }, () => one),
            { concurrency: "unbounded" }
          )
        )
        yield* eventually(Effect.sync(silent.connections), (count) => count > 0)
        const body = { firstName: "Ada", lastName: "Lovelace" }
        for (let at = 0; at < 5; at += 1) {
          const made = yield* service.call("POST", "/api/trial-users", {
            body: { ...body, email: `a${at}@example.com` }
          })
          assert.strictEqual(made.status, 201, made.text)
        }
        assert.strictEqual((yield* service.call("GET", "/health/ready")).status, 200)
        assert.isUndefined(waiting.pollUnsafe(), "the others waited for the silent server")
        for (const answer of yield* Fiber.join(waiting)) {
          if (answer.status === 503 && answer.body.type.endsWith("overloaded")) continue
          answers(answer)
        }
      }).pipe(Effect.scoped)
    )
  }
})
