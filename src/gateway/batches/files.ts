import { Context, DateTime, Effect, Layer, Option, Pull, type Scope, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { type HttpServerRequest } from "effect/http"
import { Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { Database } from "../../platform/database/database.ts"
import { databaseDeadline, withoutDeadline } from "../../platform/http/deadline.ts"
import { Settings } from "../../platform/settings/settings.ts"
import {
  GatewayError,
  type GatewayProblem,
  invalidMember,
  providerError,
  unreadableAnswer
} from "../errors/gateway-error.ts"
import { formEnd, formType, partEnd, partHead } from "../formats/forms/form.ts"
import { type Place, placesIn } from "../json/json-edits.ts"
import { givenBody } from "../pipeline/call-request.ts"
import { type BatchCaller, type BatchInput, BatchInputs, failureAt, requestIn } from "./batch-input.ts"
import { fileActions, type KeptFile } from "./domain.ts"
import { jsonIn, KeptThings, reachable } from "./kept-things.ts"
import { linesIn } from "./line-splitter.ts"
import { BatchesRepository } from "./repository.ts"
import { readUpload } from "./upload.ts"

type Failure = GatewayError<GatewayProblem>

const storeLate = "The store of files did not answer in time."

const lineFeed = new Uint8Array([0x0a])
const utf8 = new TextEncoder()

/** The purpose of a file of requests, which alone is served: what is read of other files has no bound of its own. */
const purpose = "batch"
const otherPurpose = (given: string | undefined): Failure =>
  invalidMember(
    "purpose",
    `purpose: The gateway takes files with the requests of a batch alone (purpose: ${purpose}), not ${given ?? "files without one"}`
  )

const noRequests = invalidMember("file", "file: Expected at least one request, each in a line of its own")

/** A page of a list, which begins after a thing of it. */
export interface KeptPage {
  readonly after: string | undefined
  readonly limit: number
  readonly isUp: boolean
}

/** Files with the requests of batches, which a provider keeps. Their content is read once, as it is sent there. */
export class KeptFiles extends Context.Service<KeptFiles>()("app/gateway/KeptFiles", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const inputs = yield* BatchInputs
    const repository = yield* BatchesRepository
    const things = yield* KeptThings
    const newId = (yield* SecureRandom.SecureRandom).uuidV7()
    const inTime = yield* databaseDeadline(storeLate)
    const { maxBatchBytes, maxBodyBytes } = (yield* Settings).llm.gateway

    const shown = ({
      answer,
      createdBy,
      provider,
      tenantId
    }: Pick<KeptFile, "answer" | "createdBy" | "provider" | "tenantId">) => ({
      ...answer,
      id: things.sealer(tenantId, createdBy, provider)(String(answer.id))
    })

    /** A line of the file as its provider gets it. */
    const written = Effect.fnUntraced(function* (
      input: BatchInput,
      given: Uint8Array
    ): Effect.fn.Return<Uint8Array, Failure> {
      const line = givenBody(given)
      if (line instanceof GatewayError) return yield* line
      const { body: members, bytes } = line
      const body = requestIn(line)
      if (body instanceof GatewayError) return yield* body
      if (members.method !== "POST") return yield* invalidMember("method", "method: Expected POST")
      const place = placesIn(bytes).find(({ name }) => name === "body") as Place
      const own = { body, bytes: bytes.subarray(place.value, place.end), customId: members.custom_id, url: members.url }
      const sent = yield* input.add(own)
      const text = typeof sent === "string" ? utf8.encode(sent) : sent
      return Buffer.concat([bytes.subarray(0, place.value), text, bytes.subarray(place.end), lineFeed])
    })

    const upload = Effect.fn("KeptFiles.upload")(function* (
      request: HttpServerRequest.HttpServerRequest,
      of: BatchCaller
    ): Effect.fn.Return<Json, Failure, Scope.Scope> {
      const { tenantId } = of.caller.subject
      const principal = yield* CurrentPrincipal
      const form = yield* withoutDeadline(readUpload(request, Math.min(maxBatchBytes, of.api.maxBytes)))
      const given = form.fields.get("purpose")
      if (given !== undefined && given !== purpose) return yield* otherPurpose(given)
      const input = inputs.begin(of)
      const tooLong = (line: number): Failure =>
        invalidMember("file", `Line ${line} has more than ${maxBodyBytes} bytes (Llm:Gateway:MaxBodyBytes)`)
      const lines = linesIn(form.content, maxBodyBytes, tooLong).pipe(
        Stream.mapEffect(([bytes, line]) =>
          Effect.mapError(written(input, bytes), (failure) => failureAt(failure, `Line ${line}`))
        )
      )
      // The first line decides which provider gets the file.
      const pull = yield* Stream.toPull(lines)
      const first = yield* Pull.catchDone(withoutDeadline(pull), () => Effect.fail(noRequests))
      const { provider } = input
      if (provider === undefined) return yield* noRequests
      const boundary = `gateway-${yield* newId}`
      const rest = Stream.fromPull(Effect.succeed(pull))
      const fields = Stream.suspend(() => {
        const found = form.fields.get("purpose")
        if (found !== purpose) return Stream.fail(otherPurpose(found))
        const parts = Array.from(form.fields).flatMap(([name, value]) => [
          partHead(boundary, { name, value }),
          utf8.encode(value),
          partEnd
        ])
        return Stream.fromIterable([partEnd, ...parts, formEnd(boundary)])
      })
      let failure: Failure | undefined
      const body = Stream.make(
        partHead(boundary, { name: "file", filename: form.filename, contentType: form.contentType })
      ).pipe(
        Stream.concat(Stream.fromIterable(first)),
        Stream.concat(rest),
        Stream.concat(fields),
        Stream.tapError((error) => Effect.sync(() => (failure = error)))
      )
      const sent = provider.provider.kept?.({
        method: "POST",
        path: "/files",
        headers: { "content-type": formType(boundary) },
        body: yield* Stream.toAsyncIterableEffect(body)
      })
      if (sent === undefined) return yield* unreadableAnswer(provider.id)
      const answer = yield* Effect.mapError(
        withoutDeadline(sent),
        (error) => failure ?? providerError(error, provider.id)
      )
      const described = jsonIn(answer)
      if (described === undefined || typeof described.id !== "string") return yield* unreadableAnswer(provider.id)
      const file: KeptFile = {
        tenantId,
        id: yield* newId,
        createdBy: principal.name,
        provider: provider.id,
        providerId: described.id,
        purpose,
        answer: described,
        terms: input.terms,
        places: input.modelPlaces,
        createdAt: yield* DateTime.now
      }
      yield* inTime(database.transaction(tenantId, repository.insertFile(file)))
      return shown(file)
    })

    /** What is stored of a file that was uploaded here; none of the results of a batch. */
    const find = Effect.fnUntraced(function* (tenantId: TenantId, id: string, param: string) {
      const thing = yield* things.open(tenantId, id, "file", param)
      const at = { tenantId, createdBy: yield* reachable, provider: thing.provider.id, providerId: thing.id }
      return { thing, file: yield* inTime(database.read(tenantId, repository.file(at))) }
    })

    return {
      upload,
      find,
      retrieve: Effect.fn("KeptFiles.retrieve")(function* (tenantId: TenantId, id: string) {
        const { id: own, provider } = yield* things.open(tenantId, id, "file", "file_id")
        const answer = yield* things.ask(provider, { method: "GET", path: `/files/${encodeURIComponent(own)}` })
        return { ...answer, id }
      }),
      /** The bytes of a file, as its provider sends them. */
      content: Effect.fn("KeptFiles.content")(function* (tenantId: TenantId, id: string) {
        const { id: own, provider } = yield* things.open(tenantId, id, "file", "file_id")
        return yield* things.send(provider, {
          method: "GET",
          path: `/files/${encodeURIComponent(own)}/content`,
          streams: true
        })
      }),
      list: Effect.fn("KeptFiles.list")(function* (tenantId: TenantId, kind: string | undefined, page: KeptPage) {
        const after = page.after === undefined ? undefined : (yield* find(tenantId, page.after, "after")).file
        const files = yield* inTime(
          database.read(
            tenantId,
            repository.files({
              tenantId,
              createdBy: yield* reachable,
              kind: kind ?? null,
              after: after === undefined ? null : Option.match(after, { onNone: () => null, onSome: ({ id }) => id }),
              isUp: page.isUp,
              limit: page.limit + 1
            })
          )
        )
        return { items: files.slice(0, page.limit).map(shown), hasMore: files.length > page.limit }
      }),
      remove: Effect.fn("KeptFiles.remove")(function* (tenantId: TenantId, id: string) {
        const { file, thing } = yield* find(tenantId, id, "file_id")
        const answer = yield* things.ask(thing.provider, {
          method: "DELETE",
          path: `/files/${encodeURIComponent(thing.id)}`
        })
        yield* inTime(
          audit.change(
            Effect.as(Option.isSome(file) ? repository.removeFile(file.value) : Effect.void, {
              value: undefined,
              entries: [{ action: fileActions.GatewayFileDeleted, entityId: id, tenantId }]
            })
          )
        )
        return { ...answer, id }
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
