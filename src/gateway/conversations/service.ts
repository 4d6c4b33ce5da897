import { Context, DateTime, Effect, Layer, Option, Redacted, Schema } from "effect"
import { Audit } from "../../audit/log/service.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { RouteNotFound } from "../../kernel/problems/problems.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { Database } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { gatewayError, invalidMember } from "../errors/gateway-error.ts"
import { ResponseItem } from "../translation/openai-responses/domain.ts"
import { type StoredTurn, TurnsRepository } from "./repository.ts"

/** One turn of a conversation: what was said, and the response as its caller got it. */
const Turn = Schema.Struct({
  input: Schema.Array(ResponseItem),
  response: Schema.Record(Schema.String, Schema.Unknown)
})
export type Turn = typeof Turn.Type

const TurnJson = Schema.fromJsonString(Turn)
const encode = Schema.encodeSync(TurnJson)
const decode = Schema.decodeUnknownEffect(TurnJson)
const decodeItems = Schema.decodeUnknownOption(Schema.Array(ResponseItem))

const idForm = /^resp_([0-9a-f]{32})$/
const itemForm = /^[a-z]+_([0-9a-f]{32})_\d+$/

const uuidOf = (hex: string): string => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")

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

/** The items that a response contains. */
export const outputOf = ({ response }: Turn): ReadonlyArray<ResponseItem> =>
  Option.getOrElse(decodeItems(response.output), () => [])

export const responseActions = auditActions("GatewayResponse", ["GatewayResponseDeleted"])

const make = Effect.gen(function* () {
  const audit = yield* Audit
  const database = yield* Database
  const repository = yield* TurnsRepository
  const sealing = yield* Sealing
  const { responsesRetentionHours: hours, storeResponses } = (yield* Settings).llm.gateway

  const oldest = Effect.map(DateTime.now, (now) => DateTime.subtract(now, { hours }))
  yield* Effect.flatMap(oldest, (before) => database.transaction("all", repository.purge(before))).pipe((purge) =>
    repeatJob("remove old responses", "1 hour", purge)
  )

  const open = Effect.fnUntraced(function* ({ id, sealed, tenantId }: StoredTurn) {
    const opened = yield* Effect.orDie(sealing.open(sealed, belongsTo(tenantId, id)))
    return yield* Effect.orDie(decode(new TextDecoder().decode(Redacted.value(opened))))
  })

  const isLive = Effect.map(
    oldest,
    (before) =>
      ({ createdAt }: StoredTurn) =>
        DateTime.isGreaterThan(createdAt, before)
  )

  const find = Effect.fn("Conversations.find")(function* (tenantId: TenantId, responseId: string) {
    const id = idForm.exec(responseId)?.[1]
    const missing = notFound(responseId, "response_id", "response_not_found")
    if (id === undefined) return yield* missing
    const found = yield* database.transaction(
      tenantId,
      repository.find({ tenantId, id: uuidOf(id), createdBy: yield* readable })
    )
    if (Option.isNone(found) || !(yield* isLive)(found.value)) return yield* missing
    return yield* open(found.value)
  })

  /** Everything that was said up to a response, with the response. */
  const until = Effect.fn("Conversations.until")(function* (tenantId: TenantId, responseId: string) {
    if (!storeResponses) return yield* notStored
    const id = idForm.exec(responseId)?.[1]
    const missing = notFound(responseId, "previous_response_id", "previous_response_not_found")
    if (id === undefined) return yield* missing
    const turns = yield* database.transaction(
      tenantId,
      repository.chain({ tenantId, id: uuidOf(id), createdBy: yield* readable })
    )
    const isWhole = turns.length > 0 && turns[0]?.previousId === null
    if (!isWhole || !turns.every(yield* isLive)) return yield* missing
    const opened = yield* Effect.forEach(turns, open)
    return opened.flatMap((turn): ReadonlyArray<ResponseItem> => turn.input.concat(outputOf(turn)))
  })

  return {
    storeResponses,
    find,
    until,
    /** The item of a stored response that a caller refers to. */
    item: Effect.fn("Conversations.item")(function* (tenantId: TenantId, itemId: string) {
      if (!storeResponses) return yield* notStored
      const missing = notFound(itemId, "input", "item_not_found")
      const id = itemForm.exec(itemId)?.[1]
      if (id === undefined) return yield* missing
      const turn = yield* Effect.mapError(find(tenantId, `resp_${id}`), () => missing)
      const found = outputOf(turn).find((item) => item.id === itemId)
      return found ?? (yield* missing)
    }),
    keep: Effect.fn("Conversations.keep")(function* (
      { createdBy, tenantId }: Pick<StoredTurn, "createdBy" | "tenantId">,
      responseId: string,
      previous: string | null,
      turn: Turn
    ) {
      const id = uuidOf(idForm.exec(responseId)?.[1] ?? "")
      const sealed = yield* sealing.seal(Redacted.make(new TextEncoder().encode(encode(turn))), belongsTo(tenantId, id))
      const previousId = previous === null ? null : uuidOf(idForm.exec(previous)?.[1] ?? "")
      const createdAt = yield* DateTime.now
      yield* database.transaction(
        tenantId,
        repository.insert({ tenantId, id, previousId, createdBy, sealed, createdAt })
      )
    }),
    remove: Effect.fn("Conversations.remove")(function* (tenantId: TenantId, responseId: string) {
      const id = idForm.exec(responseId)?.[1]
      const createdBy = yield* readable
      const entry = { action: responseActions.GatewayResponseDeleted, entityId: responseId, tenantId }
      const isRemoved =
        id !== undefined &&
        (yield* audit.change(
          Effect.map(repository.remove({ tenantId, id: uuidOf(id), createdBy }), (value) => ({
            value,
            entries: value ? [entry] : []
          }))
        ))
      if (!isRemoved) return yield* notFound(responseId, "response_id", "response_not_found")
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
