import { Cache, Context, DateTime, Effect, Layer, Option, Redacted, Schema } from "effect"
import { RateLimits } from "../../access/rate-limits.ts"
import { Audit } from "../../audit/log/service.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { RouteNotFound } from "../../kernel/problems/problems.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { Database } from "../../platform/database/database.ts"
import { databaseDeadline } from "../../platform/http/deadline.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { makeTurns } from "../../platform/runtime/turns.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { principalRateReached } from "../authentication/gateway-authentication.ts"
import { gatewayError, invalidMember } from "../errors/gateway-error.ts"
import { maxMessages } from "../formats/domain.ts"
import { ResponseItem } from "../formats/openai-responses/domain.ts"
import { type LatestItems } from "../formats/openai-responses/truncation.ts"
import { type StoredTurn, type TurnHead, TurnsRepository } from "./repository.ts"

/** One turn of a conversation: what was said, and the response as its caller got it. */
const Turn = Schema.Struct({
  input: Schema.Array(ResponseItem),
  response: Schema.Record(Schema.String, Schema.Unknown)
})
export type Turn = typeof Turn.Type

const TurnJson = Schema.fromJsonString(Turn)
const encode = Schema.encodeSync(TurnJson)
/** A turn as it is stored, its items not looked into. */
const RawTurn = Schema.fromJsonString(
  Schema.Struct({ input: Schema.Array(Schema.Unknown), response: Turn.fields.response })
)
const decodeTurn = Schema.decodeUnknownEffect(RawTurn)
const decodeItems = Schema.decodeUnknownEffect(Schema.Array(ResponseItem))
/** Items that are decoded before other requests get their turn. */
const itemsAtOnce = 500
/** Turns are fetched by so many bytes, so that one that is not wanted any more was rarely fetched. */
const bytesAtOnce = 1_048_576

/** A turn that was read. */
interface OpenedTurn extends Turn {
  readonly output: ReadonlyArray<ResponseItem>
}

const idForm = /^resp_([0-9a-f]{32})$/
const itemForm = /^[a-z]+_([0-9a-f]{32})_\d+$/

const uuidOf = (hex: string): string => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")

/** Turns by so many bytes at once, in their order. */
const batchesOf = (heads: ReadonlyArray<TurnHead>): ReadonlyArray<ReadonlyArray<TurnHead>> => {
  const batches: Array<Array<TurnHead>> = []
  let left = 0
  for (const head of heads) {
    if (left < head.bytes || batches.length === 0) {
      batches.push([])
      left = bytesAtOnce
    }
    batches.at(-1)?.push(head)
    left -= head.bytes
  }
  return batches
}

const notFound = (id: string, param: string, code: string) =>
  gatewayError(
    new RouteNotFound({
      detail: `No response with the id ${id} is stored with all turns before it: one never was, expired, or was deleted.`
    }),
    {
      code,
      param
    }
  )

const notStored = invalidMember(
  "previous_response_id",
  "previous_response_id: Responses are not stored here (Llm:Gateway:StoreResponses); send store: false and all items of the conversation"
)

const belongsTo = (tenantId: string, id: string): string => `gateway-response:${tenantId}:${id}`

/** An agent acts for itself alone; other principals of a tenant share its conversations. */
const readable = Effect.map(CurrentPrincipal, ({ kind, name }) => (kind === "agent" ? name : null))

const isReference = ({ type }: ResponseItem): boolean => type === "item_reference"

/** The code by which OpenAI's clients know that they have to shorten a conversation. */
const tooLongCode = "context_length_exceeded"

const tooLong = (param: string, what: string, setting: string) =>
  invalidMember(
    param,
    `${param}: The stored responses that the request refers to have more than ${what} (Llm:Gateway:StoredResponses:${setting}); send truncation: "auto", or refer to fewer`,
    tooLongCode
  )

/** More than sealing adds to what is stored. */
const sealingBytes = 64

const tooLarge = (bytes: number, maxBytes: number) =>
  invalidMember(
    "input",
    `input: The request would be stored as ${bytes} bytes, and at most ${maxBytes} are (Llm:Gateway:StoredResponses:MaxTurnBytes); send store: false`
  )

const tooManyStored = (bytes: number, maxBytes: number) =>
  invalidMember(
    "store",
    `store: The tenant's responses have ${bytes} bytes, and at most ${maxBytes} are stored (Llm:Gateway:StoredResponses:MaxTenantBytes); send store: false with all items, or delete responses`,
    "storage_limit_exceeded"
  )

export const responseActions = auditActions("GatewayResponse", ["GatewayResponseDeleted"])

const make = Effect.gen(function* () {
  const audit = yield* Audit
  const database = yield* Database
  const limits = yield* RateLimits
  const repository = yield* TurnsRepository
  const sealing = yield* Sealing
  const settings = yield* Settings
  const { responsesRetentionHours: hours, storedResponses, storeResponses } = settings.llm.gateway
  const { maxBytes, maxTenantBytes, maxTurns } = storedResponses
  const maxTurnBytes = Math.min(storedResponses.maxTurnBytes, maxBytes)
  const readInTime = yield* databaseDeadline("The stored responses that the request refers to were not read in time.")
  const storeInTime = yield* databaseDeadline("The store of responses did not answer in time.")
  // What is read takes memory and processor time in proportion to its size.
  const inTurn = yield* makeTurns({ atOnce: 4, ofOne: 2 })

  const oldest = Effect.map(DateTime.now, (now) => DateTime.subtract(now, { hours }))
  yield* Effect.flatMap(oldest, (before) => database.transaction("all", repository.purge(before))).pipe((purge) =>
    repeatJob("remove old responses", "1 hour", purge)
  )

  /** What a tenant stores, summed up every ten seconds, with what this replica stored since. */
  const used = yield* Cache.make({
    capacity: 10_000,
    timeToLive: "10 seconds",
    lookup: (tenantId: TenantId) =>
      Effect.map(database.read(tenantId, repository.bytesOf(tenantId)), (bytes) => ({ bytes }))
  })

  const decoded = Effect.fnUntraced(function* (items: ReadonlyArray<unknown>) {
    const parts: Array<ReadonlyArray<ResponseItem>> = []
    for (let from = 0; from < items.length; from += itemsAtOnce) {
      parts.push(yield* Effect.orDie(decodeItems(items.slice(from, from + itemsAtOnce))))
      yield* Effect.yieldNow
    }
    return parts.flat()
  })

  const open = Effect.fnUntraced(function* (tenantId: TenantId, { id, sealed }: Pick<StoredTurn, "id" | "sealed">) {
    const opened = yield* Effect.orDie(sealing.open(sealed, belongsTo(tenantId, id)))
    const { input, response } = yield* Effect.orDie(decodeTurn(utf8Text(Redacted.value(opened))))
    const { output } = response
    const turn: OpenedTurn = {
      input: yield* decoded(input),
      response,
      output: yield* decoded(Array.isArray(output) ? output : [])
    }
    return turn
  })

  /** What one request reads of its tenant's turns: each once, and no more than the limits allow. */
  const reading = Effect.fnUntraced(function* (tenantId: TenantId, param: string) {
    const createdBy = yield* readable
    const from = yield* oldest
    const isLive = ({ createdAt }: TurnHead) => DateTime.isGreaterThan(createdAt, from)
    const turns = new Map<string, OpenedTurn>()
    const outputs = new Map<string, ResponseItem>()
    let bytes = 0
    let count = 0

    const read = Effect.fnUntraced(function* (heads: ReadonlyArray<TurnHead>) {
      const unread = heads.filter((head) => isLive(head) && !turns.has(head.id))
      bytes += unread.reduce((sum, head) => sum + head.bytes, 0)
      if (turns.size + unread.length > maxTurns) return yield* tooLong(param, `${maxTurns} turns`, "MaxTurns")
      if (bytes > maxBytes) return yield* tooLong(param, `${maxBytes} bytes`, "MaxBytes")
      for (const batch of batchesOf(unread)) {
        const ids = batch.map(({ id }) => id)
        for (const stored of yield* database.read(tenantId, repository.sealed({ tenantId, ids }))) {
          const turn = yield* open(tenantId, stored)
          turns.set(stored.id, turn)
          for (const item of turn.output) if (typeof item.id === "string") outputs.set(item.id, item)
          count += turn.input.length + turn.output.length
          if (count > maxMessages) {
            return yield* invalidMember(
              param,
              `${param}: The stored responses that the request refers to have more than ${maxMessages} items`,
              tooLongCode
            )
          }
        }
      }
    })

    /** Items with what their references refer to; `missing` is the failure for one to nothing. */
    const resolve = Effect.fnUntraced(function* <E>(
      items: ReadonlyArray<ResponseItem>,
      missing: (id: string) => Effect.Effect<ResponseItem, E>
    ) {
      if (!items.some(isReference)) return items
      const ids = new Set<string>()
      for (const item of items) {
        const hex = isReference(item) ? itemForm.exec(item.id ?? "")?.[1] : undefined
        if (hex !== undefined) ids.add(uuidOf(hex))
      }
      const unread = [...ids].filter((id) => !turns.has(id))
      if (unread.length > 0) {
        yield* read(yield* database.read(tenantId, repository.heads({ tenantId, createdBy, ids: unread })))
      }
      return yield* Effect.forEach(items, (item) => {
        if (!isReference(item)) return Effect.succeed(item)
        const found = outputs.get(item.id ?? "")
        return found === undefined ? missing(item.id ?? "") : Effect.succeed(found)
      })
    })

    /**
     * Adds the turns up to a response to the items of a conversation, the latest first, until it takes no more. Turns that are
     * too many are an error in any case, for which older items may be left out.
     */
    const prepend = Effect.fnUntraced(function* (responseId: string, latest: LatestItems) {
      const missing = notFound(responseId, param, "previous_response_not_found")
      const id = idForm.exec(responseId)?.[1]
      if (id === undefined) return yield* missing
      const asked = { tenantId, id: uuidOf(id), createdBy, most: maxTurns + 1 }
      const heads = yield* database.read(tenantId, repository.chain(asked))
      if (heads.length === 0) return yield* missing
      let all = bytes
      const fitting = heads.slice(0, maxTurns).filter((head) => (all += head.bytes) <= maxBytes)
      const excess =
        fitting.length < Math.min(heads.length, maxTurns)
          ? tooLong(param, `${maxBytes} bytes`, "MaxBytes")
          : heads.length > maxTurns
            ? tooLong(param, `${maxTurns} turns`, "MaxTurns")
            : undefined
      if (excess !== undefined && !latest.mayCut) return yield* excess
      for (const batch of batchesOf(fitting)) {
        yield* read(batch)
        for (const head of batch) {
          const turn = turns.get(head.id)
          if (turn === undefined) return yield* missing
          latest.prepend([...(yield* resolve(turn.input, () => Effect.fail(missing))), ...turn.output])
          if (latest.isFull) return
        }
      }
      if (excess !== undefined) return yield* excess
      if (heads.at(-1)?.previousId !== null) return yield* missing
    })

    return {
      turn: Effect.fnUntraced(function* (id: string) {
        yield* read(yield* database.read(tenantId, repository.heads({ tenantId, createdBy, ids: [id] })))
        return turns.get(id)
      }),
      resolve,
      prepend: (responseId: string, latest: LatestItems) =>
        Effect.catchIf(
          prepend(responseId, latest),
          ({ error }) => error.code === tooLongCode && latest.mayCut,
          () => Effect.sync(() => latest.cut())
        )
    }
  })

  /** Reads within the turns of a tenant and the time limit of a request. */
  const limited = <A, E>(tenantId: TenantId, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    readInTime(inTurn(tenantId, effect))

  const find = Effect.fn("Conversations.find")(function* (tenantId: TenantId, responseId: string) {
    const id = idForm.exec(responseId)?.[1]
    const missing = notFound(responseId, "response_id", "response_not_found")
    if (id === undefined) return yield* missing
    const reader = yield* reading(tenantId, "response_id")
    const turn = yield* limited(tenantId, reader.turn(uuidOf(id)))
    return turn === undefined ? yield* missing : { reader, turn }
  })

  return {
    storeResponses,
    /** A stored response as its caller got it. */
    response: (tenantId: TenantId, responseId: string) =>
      Effect.map(find(tenantId, responseId), ({ turn }) => turn.response),
    /** The items that a stored response answered; a reference to what is gone stays one. */
    input: Effect.fn("Conversations.input")(function* (tenantId: TenantId, responseId: string) {
      const { reader, turn } = yield* find(tenantId, responseId)
      const resolved = reader.resolve(turn.input, (id) => Effect.succeed({ type: "item_reference", id }))
      return yield* limited(tenantId, resolved)
    }),
    /**
     * The items of a request with what they refer to; they are added to the items of the conversation, and before them what
     * was said up to a response.
     */
    load: Effect.fn("Conversations.load")(function* (
      tenantId: TenantId,
      given: ReadonlyArray<ResponseItem>,
      previous: string | undefined,
      latest: LatestItems
    ) {
      if (previous === undefined && !given.some(isReference)) {
        latest.prepend(given)
        return given
      }
      if (!storeResponses) return yield* notStored
      yield* Effect.catch(limits.requireLeft((yield* CurrentPrincipal).name), principalRateReached)
      const { prepend, resolve } = yield* reading(tenantId, previous === undefined ? "input" : "previous_response_id")
      return yield* limited(
        tenantId,
        Effect.gen(function* () {
          const own = yield* resolve(given, (id) => Effect.fail(notFound(id, "input", "item_not_found")))
          latest.prepend(own)
          if (previous !== undefined && !latest.isFull) yield* prepend(previous, latest)
          return own
        })
      )
    }),
    /** Whether a turn may be stored: fails if it is too large, or if the tenant stores too much and `isNeeded`. */
    admits: Effect.fn("Conversations.admits")(function* (
      tenantId: TenantId,
      turn: { readonly bytes: number; readonly isNeeded: boolean }
    ) {
      if (!storeResponses) return false
      const stored = turn.bytes + sealingBytes
      if (stored > maxTurnBytes) return yield* tooLarge(stored, maxTurnBytes)
      const { bytes } = yield* storeInTime(Cache.get(used, tenantId))
      if (bytes < maxTenantBytes) return true
      return turn.isNeeded ? yield* tooManyStored(bytes, maxTenantBytes) : false
    }),
    /** Stores a turn; answers whether it is stored, which one with too large an answer is not. */
    keep: Effect.fn("Conversations.keep")(function* (
      { createdBy, tenantId }: Pick<StoredTurn, "createdBy" | "tenantId">,
      responseId: string,
      previous: string | null,
      turn: Turn
    ) {
      const text = new TextEncoder().encode(encode(turn))
      if (text.length + sealingBytes > maxTurnBytes) return false
      const id = uuidOf(idForm.exec(responseId)?.[1] ?? "")
      const sealed = yield* sealing.seal(Redacted.make(text), belongsTo(tenantId, id))
      const previousId = previous === null ? null : uuidOf(idForm.exec(previous)?.[1] ?? "")
      const createdAt = yield* DateTime.now
      yield* database.transaction(
        tenantId,
        repository.insert({ tenantId, id, previousId, createdBy, sealed, createdAt })
      )
      const known = yield* Cache.getSuccess(used, tenantId)
      if (Option.isSome(known)) known.value.bytes += sealed.length
      return true
    }),
    remove: Effect.fn("Conversations.remove")(function* (tenantId: TenantId, responseId: string) {
      const id = idForm.exec(responseId)?.[1]
      const createdBy = yield* readable
      const entry = { action: responseActions.GatewayResponseDeleted, entityId: responseId, tenantId }
      const isRemoved =
        id !== undefined &&
        (yield* storeInTime(
          audit.change(
            Effect.map(repository.remove({ tenantId, id: uuidOf(id), createdBy }), (value) => ({
              value,
              entries: value ? [entry] : []
            }))
          )
        ))
      if (!isRemoved) return yield* notFound(responseId, "response_id", "response_not_found")
      yield* Cache.invalidate(used, tenantId)
    })
  }
})

/**
 * Conversations of the Responses API with models whose provider does not store them: by tenant, encrypted, so that any
 * replica answers the next turn, for `Llm:Gateway:ResponsesRetentionHours`.
 */
export class Conversations extends Context.Service<Conversations, Effect.Success<typeof make>>()(
  "app/gateway/Conversations"
) {
  static readonly layer = Layer.effect(Conversations, make).pipe(Layer.provide(TurnsRepository.layer))
}
