import "../../src/platform/runtime/json-parse.ts"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Clock, Effect, Exit, Layer, Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"
import { Agent, request as send } from "undici"
import { CapIndexes } from "../../src/budgets/ledger/cap-index.ts"
import { type ChargeId, type ReservationId } from "../../src/budgets/ledger/domain.ts"
import { type CallDetails } from "../../src/budgets/ledger/protocol-domain.ts"
import { Ledger } from "../../src/budgets/ledger/service.ts"
import { GatewayAuthentication } from "../../src/gateway/authentication/gateway-authentication.ts"
import { betasOf } from "../../src/gateway/catalog/betas.ts"
import { GatewayConfiguration } from "../../src/gateway/configuration/service.ts"
import { GatewayError } from "../../src/gateway/errors/gateway-error.ts"
import { openAiChat } from "../../src/gateway/formats/openai-chat/format.ts"
import { imageTokensOf, writtenBytes } from "../../src/gateway/formats/token-upper-bound.ts"
import { BudgetReservations, type Settlement } from "../../src/gateway/metering/budget-reservations.ts"
import { estimateOf } from "../../src/gateway/metering/estimates.ts"
import { TokenCounts } from "../../src/gateway/metering/token-counts.ts"
import { UsageMeter } from "../../src/gateway/metering/usage-meter.ts"
import {
  type Call,
  parseRequest,
  validateRequest,
  withoutBetaMembers
} from "../../src/gateway/pipeline/call-request.ts"
import { providerRequest } from "../../src/gateway/pipeline/provider-request.ts"
import { relayResponse } from "../../src/gateway/pipeline/response-relay.ts"
import { candidatesOf, resolveModel } from "../../src/gateway/routing/resolve-model.ts"
import { ProviderHealth, Router } from "../../src/gateway/routing/router.ts"
import { responseOf } from "../../src/gateway/wire/http/serve.ts"
import { CurrentPrincipal } from "../../src/kernel/authority/principal.ts"
import { DatabaseLayer } from "../../src/platform/database/connection.ts"
import * as Platform from "../../src/platform/layers.ts"
import { Settings } from "../../src/platform/settings/settings.ts"
import { ServerLayer } from "../../src/server.ts"
import { readableSeals } from "../support/turn-seals.ts"
import { stages } from "./stages.ts"

const providerUrl = new URL(`${process.env.BENCH_PROVIDER_URL}/v1/chat/completions`)
const maxBodyBytes = 1 << 20
const ttlSeconds = 3600
const isThere = (stage: number, name: (typeof stages)[number]) => stage >= stages.indexOf(name)

/** A bare proxy: the router, Node's server, undici, and a parse of request and answer. */
const bareRoute = (agent: Agent) =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const text = yield* request.text
    JSON.parse(text)
    return yield* exchanged(agent, text)
  })

const exchanged = (agent: Agent, body: string | Uint8Array) =>
  Effect.promise(async () => {
    const headers = { "content-type": "application/json" }
    const answer = await send(providerUrl, { method: "POST", dispatcher: agent, headers, body })
    const text = await answer.body.text()
    JSON.parse(text)
    return HttpServerResponse.text(text, { contentType: "application/json" })
  })

/** The steps of `CallPipeline`, up to one of them; what is left out is as in the bare proxy. */
const makeStaged = Effect.gen(function* () {
  const authentication = yield* GatewayAuthentication
  const capIndexes = yield* CapIndexes
  const clock = yield* Clock.Clock
  const configuration = yield* GatewayConfiguration
  const counts = yield* TokenCounts
  const health = yield* ProviderHealth
  const ledger = yield* Ledger
  const newId = (yield* SecureRandom.SecureRandom).uuidV7()
  const reservations = yield* BudgetReservations
  const router = yield* Router
  const facts = { latency: health.latency, random: () => 0.5, quota: () => "metered" as const }

  return (agent: Agent, stage: number) => {
    const staged = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
      const { body, bytes } = yield* parseRequest(request, maxBodyBytes)
      const isAttributed = isThere(stage, "authenticate, attribute")
      const caller = isAttributed ? yield* authentication.attribute({}) : undefined
      const read = withoutBetaMembers<Call>({
        format: openAiChat,
        model: body.model,
        streams: false,
        body,
        bytes,
        caller: caller as Call["caller"],
        states: readableSeals,
        headers: {},
        writeError: () => ""
      })
      if (read instanceof GatewayError) return yield* read
      const call = read
      const invalid = validateRequest(call)
      if (invalid !== undefined) return yield* invalid
      if (caller === undefined || !isThere(stage, "resolve")) return yield* exchanged(agent, bytes)

      const gateway = configuration.snapshot()
      const model = resolveModel(gateway, body.model, openAiChat)
      if (model instanceof GatewayError) return yield* model
      const [candidate] = candidatesOf(gateway, [model], openAiChat, facts)
      if (candidate === undefined) return yield* Effect.die("No target")
      const { target } = candidate
      betasOf(call.headers, gateway.betaOf)
      if (!isThere(stage, "bound, price")) return yield* exchanged(agent, bytes)

      const dimensions = { ...caller.subject.dimensions, model: model.id, provider: target.provider.id }
      const subject = { ...caller.subject, dimensions }
      const terms = { models: [target], mcpServers: [target.provider.mcpServers] }
      const bound = openAiChat.bound(body, {
        ...terms,
        bodyBytes: writtenBytes(bytes),
        imageTokens: imageTokensOf([target]),
        contextTokens: model.contextTokens,
        maxOutputTokens: model.maxOutputTokens
      })
      const constraints = yield* reservations.constraintsOf(subject)
      const estimate = yield* estimateOf({
        model,
        targets: [target],
        bound,
        timeoutSeconds: 600,
        constraints,
        contextTokens: model.contextTokens,
        defaultOutputTokens: 4096,
        defaultToolUses: 4,
        hasOutput: true
      })
      const changed = yield* providerRequest(call, target, estimate)
      if (!isThere(stage, "reserve")) return yield* exchanged(agent, changed)

      const { amountNanoUsd: amount, tokens } = estimate
      const { name: principal } = yield* CurrentPrincipal
      const [id, chargeId] = [(yield* newId) as ReservationId, (yield* newId) as ChargeId]
      const { tenantId } = subject
      const origin = "gateway"
      const reserved = yield* ledger.reserve({
        kind: "reserve",
        mayWait: false,
        principal,
        id,
        tenantId,
        origin,
        dimensions,
        plan: undefined,
        amount,
        tokens,
        ttlSeconds,
        metadata: undefined
      })
      if (reserved.verdict !== "open") return yield* Effect.die(reserved)
      if (constraints.books !== undefined) yield* capIndexes.areCurrent(constraints.books)
      if (!isThere(stage, "provider exchange")) return yield* exchanged(agent, changed)

      const catalogueVersion = gateway.catalogueVersion
      const metered = {
        format: openAiChat,
        asked: body.model,
        streams: false,
        body,
        tenantId,
        model,
        catalogueVersion,
        ratesOf: () => undefined,
        bound,
        timeoutSeconds: 600
      }
      const meter = new UsageMeter(
        { ...metered, metadata: undefined, traceId: undefined, conventions: "before" },
        clock,
        counts
      )
      const settle = ({ costNanoUsd, tokens: used }: Settlement, details: CallDetails) => {
        if (!isThere(stage, "settle")) return
        const ledgered = isThere(stage, "usage row") ? details : undefined
        ledger.enqueueSettlement({
          principal,
          kind: "settle",
          amount: costNanoUsd,
          tokens: used,
          call: ledgered,
          id,
          tenantId,
          origin,
          canActForOthers: true,
          chargeId
        })
      }
      meter.reserved(
        { id, amountNanoUsd: amount, tokens, remainingNanoUsd: null, settle, release: () => {} },
        target,
        estimate
      )
      meter.beginAttempt(target)
      const exchange = Scope.makeUnsafe()
      const { routing } = gateway
      const asked = {
        format: openAiChat,
        model: target.model,
        streams: false,
        body: changed,
        headers: {},
        deadline: meter.startedAt + 60_000
      }
      const answer = yield* Effect.ensuring(
        router
          .send(target, asked, routing, {
            sent: () => meter.sent(),
            answered: (span, { status }) => {
              const durationMs = meter.now - meter.startedAt
              meter.answered({ provider: target.provider.id, model: target.model, status, durationMs }, span)
            },
            failed: () => {}
          })
          .pipe(Scope.provide(exchange)),
        Scope.close(exchange, Exit.void)
      )
      if (!isThere(stage, "relay, meter")) {
        return answer.body instanceof Uint8Array
          ? HttpServerResponse.uint8Array(answer.body, { contentType: "application/json" })
          : yield* Effect.die("Not a whole answer")
      }
      return responseOf(yield* relayResponse(call, target, answer, meter), "")
    })
    return Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      if (!isThere(stage, "authenticate, attribute")) return yield* staged(request)
      return yield* authentication.authenticated(
        request,
        { capabilities: ["llm:complete"], limitedBy: "caps" },
        staged(request)
      )
    }).pipe(Effect.orDie)
  }
})

const Staged = HttpRouter.serve(
  Layer.unwrap(
    Effect.gen(function* () {
      const staged = yield* makeStaged
      const agent = new Agent({ connections: 256 })
      return HttpRouter.addAll(
        stages.map((name, stage) =>
          HttpRouter.route(
            "POST",
            `/stages/${stage}`,
            name === "floor" ? Effect.orDie(bareRoute(agent)) : staged(agent, stage)
          )
        )
      )
    })
  ),
  { disableLogger: true, disableListenLog: true }
)

const Announced = Layer.effectDiscard(
  Effect.flatMap(HttpServer.HttpServer, ({ address }) =>
    Effect.sync(() => process.stdout.write(`stages on ${HttpServer.formatAddress(address)}\n`))
  )
)

const Main = Layer.effectDiscard(
  Effect.flatMap(HttpServer.HttpServer, ({ address }) =>
    Effect.sync(() => process.stdout.write(`gateway on ${HttpServer.formatAddress(address)}\n`))
  )
).pipe(
  Layer.provide(
    Layer.merge(Staged, Announced).pipe(
      Layer.provide(NodeHttpServer.layer(() => createServer(), { port: 0, host: "127.0.0.1" }))
    )
  ),
  Layer.provide(ServerLayer),
  Layer.provide(DatabaseLayer),
  Layer.provide(Platform.layerListener),
  Layer.provide(Platform.layerObservability),
  Layer.provide(Settings.layerWith([]))
)

if (import.meta.main) NodeRuntime.runMain(Layer.launch(Main))
