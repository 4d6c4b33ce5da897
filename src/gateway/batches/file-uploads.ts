import { Context, DateTime, Effect, Layer, Pull, type Scope, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { type HttpServerRequest } from "effect/http"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { RouteNotFound } from "../../kernel/problems/problems.ts"
import { Database } from "../../platform/database/database.ts"
import { databaseDeadline, withoutDeadline } from "../../platform/http/deadline.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type ConnectedProvider } from "../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import {
  gatewayError,
  GatewayError,
  type GatewayProblem,
  invalidMember,
  providerError,
  unreadableAnswer
} from "../errors/gateway-error.ts"
import { type FilesApi } from "../formats/files/files.ts"
import { formEnd, formType, partEnd, partHead } from "../formats/forms/form.ts"
import { type Place, placesIn } from "../json/json-edits.ts"
import { givenBody } from "../pipeline/call-request.ts"
import { type RequestFiles, UploadFiles } from "../pipeline/upload-files.ts"
import { isModelName, modelNotFound, noModelName } from "../routing/resolve-model.ts"
import {
  type BatchCaller,
  type BatchInput,
  BatchInputs,
  failureAt,
  requestIn,
  requireCapability
} from "./batch-input.ts"
import { type KeptFile } from "./domain.ts"
import { jsonIn, KeptThings } from "./kept-things.ts"
import { isBlankLine, LineSplitter, linesIn } from "./line-splitter.ts"
import { BatchesRepository } from "./repository.ts"
import { atMost, readUpload, type Upload } from "./upload.ts"

type Failure = GatewayError<GatewayProblem>

/** Who uploads a file, by which API; of a file with the requests of a batch, the batches that these are for. */
export interface UploadingCaller extends Omit<BatchCaller, "api"> {
  readonly files: FilesApi
  readonly api: BatchCaller["api"] | undefined
  /** A model that the file is meant for, by any of its names. */
  readonly model: string | undefined
}

/** A file on its way to a provider. */
interface Sending {
  readonly form: Upload
  readonly content: Stream.Stream<Uint8Array, Failure>
  readonly provider: ConnectedProvider
  /** Why a form is not taken, of which all fields are known. */
  readonly faultAtEnd: () => Failure | undefined
  /** What is stored of a file with the requests of a batch, once all of them were sent. */
  readonly input?: BatchInput
}

/** A later moment is none that is stored; the year is 5138. */
const latest = 1e14

const storeLate = "The store of files did not answer in time."

const lineFeed = new Uint8Array([0x0a])
/** What JSON of an object may begin with: a brace, or the mark of its encoding. */
const mayBegin = new Set<number | undefined>([undefined, 0x7b, 0xef])
const utf8 = new TextEncoder()

const noRequests = invalidMember("file", "file: Expected at least one request, each in a line of its own")
const isBatch = invalidMember(
  "purpose",
  "purpose: The file begins with the request of a batch, and was read as one; send the purpose before the file"
)
const noRequest = invalidMember("file", "Expected a request with the members custom_id, method, url and body")

/** The members of a line of a file of requests, of which one may have another name by mistake. */
const members = ["custom_id", "method", "url", "body"] as const
const fewestMembers = 3

/** Why a line is no request of a batch; undefined if it is one, as far as its members tell. */
const faultOfLine = (line: Uint8Array): Failure | undefined => {
  const given = givenBody(line)
  if (given instanceof GatewayError) return given
  return members.filter((name) => Object.hasOwn(given.body, name)).length < fewestMembers ? noRequest : undefined
}

/** What is read of a file to know what it has, and all of it. */
interface Beginning {
  /** Why it has no requests of a batch; undefined if it begins with one. */
  readonly fault: Failure | undefined
  readonly content: Stream.Stream<Uint8Array, Failure>
}

/**
 * Reads the first line of a file, as far as it may be a request of a batch, and no more than `most` bytes: they stay in memory until
 * all of the file is sent.
 */
const beginningOf = Effect.fnUntraced(function* (
  given: Stream.Stream<Uint8Array, Failure>,
  most: number,
  room: RequestFiles
): Effect.fn.Return<Beginning, Failure, Scope.Scope> {
  const pull = yield* Stream.toPull(given)
  const splitter = new LineSplitter(most)
  const read: Array<Uint8Array> = []
  let length = 0
  let line = 1
  const content = Stream.concat(
    Stream.suspend(() => Stream.fromIterable(read)),
    Stream.fromPull(Effect.succeed(pull))
  )
  const begins = (text: Uint8Array): Beginning => {
    const fault = faultOfLine(text)
    return { fault: fault === undefined ? undefined : failureAt(fault, `Line ${line}`), content }
  }
  while (length <= most && mayBegin.has(splitter.first)) {
    const chunks = yield* Pull.catchDone(pull, () => Effect.succeed(undefined))
    if (chunks === undefined) {
      const last = splitter.end()
      const found = isBlankLine(last) ? { fault: noRequests } : begins(last)
      return { ...found, content: Stream.fromIterable(read) }
    }
    read.push(...chunks)
    for (const chunk of chunks) {
      const full = room.count(chunk.length)
      if (full !== undefined) return yield* full
      length += chunk.length
      for (const text of splitter.push(chunk)) {
        if (!isBlankLine(text)) return begins(text)
        line++
      }
    }
  }
  return { fault: failureAt(noRequest, `Line ${line}`), content }
})

/** Takes files to the providers that keep them. Their content is read once, as it is sent there. */
export class FileUploads extends Context.Service<FileUploads>()("app/gateway/FileUploads", {
  make: Effect.gen(function* () {
    const configuration = yield* GatewayConfiguration
    const database = yield* Database
    const inputs = yield* BatchInputs
    const uploads = yield* UploadFiles
    const repository = yield* BatchesRepository
    const things = yield* KeptThings
    const newId = (yield* SecureRandom.SecureRandom).uuidV7()
    const inTime = yield* databaseDeadline(storeLate)
    const { maxBatchBytes, maxBodyBytes, maxUploadBytes } = (yield* Settings).llm.gateway

    /** The provider that a file goes to: of the model that it is meant for, else the vendor's own that is listed first. */
    const keeperOf = (
      { dialect, keepers, name }: FilesApi,
      asked: string | undefined
    ): Effect.Effect<ConnectedProvider, Failure> => {
      if (asked !== undefined && !isModelName(asked)) return Effect.fail(noModelName("x-model"))
      const gateway = configuration.snapshot()
      const model = asked === undefined ? undefined : gateway.modelNamed(asked)
      if (asked !== undefined && model === undefined) return Effect.fail(modelNotFound(gateway, asked))
      const all = model === undefined ? [...gateway.providers.values()] : model.targets.map(({ provider }) => provider)
      const able = all.filter(({ provider, speaks }) => provider.kept !== undefined && speaks.dialect === dialect)
      const own = able.find(({ platform = "", vendor = "" }) => keepers.has(vendor) || keepers.has(platform))
      const found = model === undefined ? (own ?? able[0]) : able[0]
      if (found !== undefined) return Effect.succeed(found)
      const detail =
        model === undefined
          ? `No provider of the configuration keeps files of ${name}: an operator has to add one of the dialect ${dialect}.`
          : `No provider of the model \`${asked}\` keeps files of ${name}; name another model in x-model, or none.`
      return Effect.fail(
        gatewayError(new RouteNotFound({ detail }), {
          code: "no_file_provider"
        })
      )
    }

    /** A line of the requests of a batch as its provider gets it. */
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

    /** A file with the requests of a batch, of which the first decides which provider gets it. */
    const requestsOf = Effect.fnUntraced(function* (
      form: Upload,
      given: Stream.Stream<Uint8Array, Failure>,
      of: BatchCaller,
      batch: string
    ): Effect.fn.Return<Sending, Failure, Scope.Scope> {
      const input = inputs.begin(of)
      const tooLong = (line: number): Failure =>
        invalidMember("file", `Line ${line} has more than ${maxBodyBytes} bytes (Llm:Gateway:MaxBodyBytes)`)
      const lines = linesIn(atMost(given, Math.min(maxBatchBytes, of.api.maxBytes)), maxBodyBytes, tooLong).pipe(
        Stream.mapEffect(([bytes, line]) =>
          Effect.mapError(written(input, bytes), (failure) => failureAt(failure, `Line ${line}`))
        )
      )
      const pull = yield* Stream.toPull(lines)
      const first = yield* Pull.catchDone(withoutDeadline(pull), () => Effect.fail(noRequests))
      const { provider } = input
      if (provider === undefined) return yield* noRequests
      return {
        form,
        content: Stream.concat(Stream.fromIterable(first), Stream.fromPull(Effect.succeed(pull))),
        provider,
        input,
        faultAtEnd: () => (form.fields.get("purpose") === batch ? undefined : isBatch)
      }
    })

    /** A file that later requests name. */
    const dataOf = Effect.fnUntraced(function* (
      form: Upload,
      given: Stream.Stream<Uint8Array, Failure>,
      { files, model }: UploadingCaller,
      faultAtEnd: Sending["faultAtEnd"]
    ): Effect.fn.Return<Sending, Failure> {
      yield* requireCapability("llm:complete")
      return { form, content: atMost(given, maxUploadBytes), provider: yield* keeperOf(files, model), faultAtEnd }
    })

    /** What is to be sent of a form, by what its file is for. */
    const sendingOf = Effect.fnUntraced(function* (
      form: Upload,
      of: UploadingCaller
    ): Effect.fn.Return<Sending, Failure, Scope.Scope> {
      const { api, files } = of
      const { purposes } = files
      if (api === undefined || purposes === undefined) return yield* dataOf(form, form.content, of, () => undefined)
      const { batch } = purposes
      const faultOf = (purpose: string | undefined): Failure | undefined => {
        const fault = purposes.faultOf(purpose)
        return fault === undefined ? undefined : invalidMember("purpose", `purpose: ${fault}`)
      }
      const known = form.fields.get("purpose")
      const asBatch = { ...of, api }
      if (known === batch) return yield* requestsOf(form, form.content, asBatch, batch)
      if (known !== undefined) {
        const fault = faultOf(known)
        if (fault !== undefined) return yield* fault
        return yield* dataOf(form, form.content, of, () => undefined)
      }
      // OpenAI's SDK writes the fields of a form in the order of its caller, who usually names the file first.
      const room = yield* uploads.begin(of.caller.subject.tenantId)
      const { content, fault } = yield* withoutDeadline(beginningOf(form.content, maxBodyBytes, room))
      if (fault === undefined) return yield* requestsOf(form, content, asBatch, batch)
      return yield* dataOf(form, content, of, () => {
        const purpose = form.fields.get("purpose")
        return purpose === batch ? fault : faultOf(purpose)
      })
    })

    /** What a provider answers with to a form. */
    const sent = Effect.fnUntraced(function* (
      { content, faultAtEnd, form, provider }: Sending,
      { files, headers }: UploadingCaller
    ): Effect.fn.Return<Json, Failure, Scope.Scope> {
      const boundary = `gateway-${yield* newId}`
      const fields = Stream.suspend(() => {
        const fault = faultAtEnd()
        if (fault !== undefined) return Stream.fail(fault)
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
        Stream.concat(content),
        Stream.concat(fields),
        Stream.tapError((error) => Effect.sync(() => (failure = error)))
      )
      const answered = provider.provider.kept?.({
        method: "POST",
        path: files.path,
        headers: { ...headers, "content-type": formType(boundary) },
        body: yield* Stream.toAsyncIterableEffect(body)
      })
      if (answered === undefined) return yield* unreadableAnswer(provider.id)
      const answer = yield* Effect.mapError(
        withoutDeadline(answered),
        (error) => failure ?? providerError(error, provider.id)
      )
      return jsonIn(answer) ?? (yield* unreadableAnswer(provider.id))
    })

    return {
      /** Sends the file of a form to a provider; the file as its caller sees it. */
      upload: Effect.fn("FileUploads.upload")(function* (
        request: HttpServerRequest.HttpServerRequest,
        of: UploadingCaller
      ): Effect.fn.Return<Json, Failure, Scope.Scope> {
        const { caller, files } = of
        const { tenantId } = caller.subject
        const { name } = yield* CurrentPrincipal
        const most = files.purposes === undefined ? maxUploadBytes : Math.max(maxBatchBytes, maxUploadBytes)
        const form = yield* withoutDeadline(readUpload(request, most))
        const sending = yield* sendingOf(form, of)
        const { input, provider } = sending
        const stored = Effect.gen(function* () {
          const answer = yield* sent(sending, of)
          if (typeof answer.id !== "string") return yield* unreadableAnswer(provider.id)
          const createdAt = yield* DateTime.now
          const expires = files.expiresAt(answer) ?? Number.NaN
          const file: KeptFile = {
            tenantId,
            id: yield* newId,
            createdBy: name,
            dialect: files.dialect,
            provider: provider.id,
            providerId: answer.id,
            purpose: form.fields.get("purpose") ?? "",
            answer,
            terms: input?.terms ?? null,
            places: input?.modelPlaces ?? null,
            createdAt,
            expiresAt: expires > 0 && expires < latest ? DateTime.makeUnsafe(expires) : null
          }
          yield* Effect.onError(inTime(database.transaction(tenantId, repository.insertFile(file))), () =>
            // What is not stored here can be neither listed nor deleted by anyone.
            Effect.ignoreCause(
              things.ask(provider, {
                method: "DELETE",
                path: `${files.path}/${encodeURIComponent(file.providerId)}`,
                headers: of.headers
              })
            )
          )
          return { ...answer, id: things.sealer(tenantId, name, provider.id)(file.providerId) }
        })
        // A caller that leaves while the file arrives breaks its content off; one that leaves later has uploaded it.
        return yield* Effect.uninterruptible(stored)
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
