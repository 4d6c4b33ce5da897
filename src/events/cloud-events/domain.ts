import { DateTime, Schema } from "effect"
import { canaryActions } from "../../agents/api-keys/domain.ts"
import { type AuditEntry } from "../../audit/log/domain.ts"
import { auditActions, declaredActions } from "../../kernel/authority/audit-action.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { text } from "../../kernel/text.ts"

/** The type of every event of this service begins with it. */
export const ownTypePrefix = "com.application-manager."
const systemSource = "/system"
const tenantSources = "/tenants"
/** What the sources of events of this service are, and begin with. */
export const ownSources = [systemSource, tenantSources]
/** The source of the events of a tenant, or of no tenant. */
export const sourceOf = (tenantId: string | null): string =>
  tenantId === null ? systemSource : `${tenantSources}/${tenantId}`

/** The event of others that the ledger charges. */
export const usageRecorded = `${ownTypePrefix}usage.recorded`

export const structuredType = "application/cloudevents+json"
export const batchType = "application/cloudevents-batch+json"
export const maxBatchBytes = 1_048_576

const Count = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: maxBatchBytes })))

/** What became of the events of a request. */
export const EventReceipt = Schema.Struct({
  accepted: Count.annotate({ description: "Events that are new", examples: [1] }),
  repeated: Count.annotate({ description: "Events that were published before", examples: [0] })
}).annotate({ identifier: "EventReceipt" })

export const receivedActions = auditActions("Event", ["EventReceived"])
const received = receivedActions.EventReceived.actionType
const canaryTouched = canaryActions.CanaryTouched.actionType

const optionalText = (description: string, example: string) =>
  Schema.optionalKey(Schema.String.annotate({ description, examples: [example] }))

/** A CloudEvent in its JSON format. */
export const CloudEvent = Schema.StructWithRest(
  Schema.Struct({
    specversion: Schema.Literal("1.0"),
    id: Schema.String.annotate({ examples: ["0198a5b0-7c00-7000-8000-00000000002a"] }),
    source: Schema.String.annotate({ examples: ["/tenants/0198a5b0-7c00-7000-8000-00000000002a"] }),
    type: Schema.String.annotate({ examples: ["com.application-manager.trial-user.created"] }),
    subject: optionalText("What the event is about", "trial-user/42"),
    time: optionalText("When it happened", "2026-01-31T09:30:00.000Z"),
    datacontenttype: optionalText("The media type of `data`", "application/json"),
    dataschema: optionalText("URI of the schema of `data`", "https://example.com/schema.json"),
    data: Schema.optionalKey(Schema.Json.annotate({ description: "What happened, as any JSON" })),
    data_base64: optionalText("`data` that is neither JSON nor text", "AAEC"),
    tenantid: optionalText("The tenant that it belongs to", "0198a5b0-7c00-7000-8000-00000000002a"),
    sequence: optionalText("Its place in the audit log, in 20 digits", "00000000000000000042"),
    traceparent: optionalText("W3C trace context", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"),
    authtype: optionalText("The kind of principal", "service_account"),
    authid: optionalText("The principal", "service-account")
  }),
  [Schema.Record(Schema.String, Schema.Json.annotate({ description: "An extension attribute" }))]
).annotate({ identifier: "CloudEvent" })
export type CloudEvent = typeof CloudEvent.Type

const wordsOf = (name: string): ReadonlyArray<string> => name.match(/[A-Z][a-z0-9]*/g) ?? [name]
const kebab = (words: ReadonlyArray<string>): string => words.join("-").toLowerCase()

/** The type of the events of an action: the words of the entity, then those of the action that do not repeat them. */
const makeType = (actionType: string, entityType: string): string => {
  if (actionType === canaryTouched) return `${ownTypePrefix}security.canary.touched`
  const entity = wordsOf(entityType)
  const action = wordsOf(actionType)
  const repeated = entity.findIndex((_, from) => entity.slice(from).every((word, place) => action[place] === word))
  const verb = repeated === -1 ? action : action.slice(entity.length - repeated)
  return `${ownTypePrefix}${kebab(entity)}.${kebab(verb.length === 0 ? action : verb)}`
}

const types = new Map<string, string>()
const ownTypeOf = (actionType: string, entityType: string): string => {
  const key = `${actionType} ${entityType}`
  let type = types.get(key)
  if (type === undefined) types.set(key, (type = makeType(actionType, entityType)))
  return type
}

/** The type of the events of every action; of what others publish, the one that the ledger charges. */
export const eventTypes = (): ReadonlyArray<{
  readonly type: string
  readonly actionType: string
  readonly entityType: string
}> =>
  declaredActions().map(({ actionType, entityType }) => ({
    type: actionType === received ? usageRecorded : ownTypeOf(actionType, entityType),
    actionType,
    entityType
  }))

/** The same without what others publish. */
export const ownTypes = () => eventTypes().filter(({ actionType }) => actionType !== received)

/** What an audit entry of an ingested event keeps: the event as it came. */
const receivedIn = ({ actionType, changes }: AuditEntry): CloudEvent | undefined =>
  actionType === received && changes !== null && changes.after !== null ? (changes.after as CloudEvent) : undefined

/** The type of the event that an audit entry is. */
export const typeOf = (entry: AuditEntry): string =>
  receivedIn(entry)?.type ?? ownTypeOf(entry.actionType, entry.entityType)

export const sequenceText = (sequence: number): string => String(sequence).padStart(20, "0")

/** The kinds of principals in the words of the extension `authtype`. */
const authTypes: Readonly<Record<string, string>> = {
  account: "user",
  "service-account": "service_account",
  "api-key": "api_key",
  agent: "service_account",
  synthetic: "api_key",
  system: "system",
  anonymous: "unauthenticated"
}

const kebabEntity = new Map<string, string>()
const entityName = (entityType: string): string => {
  let name = kebabEntity.get(entityType)
  if (name === undefined) kebabEntity.set(entityType, (name = kebab(wordsOf(entityType))))
  return name
}

/** The event that a linked audit entry is. */
export const toCloudEvent = (entry: AuditEntry): CloudEvent => {
  const received = receivedIn(entry)
  const own = received ?? {
    specversion: "1.0" as const,
    id: entry.id,
    source: sourceOf(entry.tenantId),
    type: ownTypeOf(entry.actionType, entry.entityType),
    subject:
      entry.entityId === null ? entityName(entry.entityType) : `${entityName(entry.entityType)}/${entry.entityId}`,
    datacontenttype: "application/json",
    data: {
      actionType: entry.actionType,
      outcome: entry.outcome,
      changes: entry.changes as Schema.Json,
      synthetic: entry.actorType === "synthetic"
    }
  }
  return {
    ...own,
    time: received?.time ?? DateTime.formatIso(entry.occurredAt),
    // The log has no span of the change; a number made of the entry's id is as stable as the event.
    ...(entry.traceId === null || received?.traceparent !== undefined
      ? {}
      : { traceparent: `00-${entry.traceId}-${entry.id.replaceAll("-", "").slice(16)}-00` }),
    ...(entry.tenantId === null ? {} : { tenantid: entry.tenantId }),
    sequence: sequenceText(entry.sequence ?? 0),
    authtype: authTypes[entry.actorType] ?? "unknown",
    authid: entry.userId
  }
}

const pattern = /^(?:[^\s*,]+\*?|\*)$/u
const maxPatternLength = 255
const patternExpected = "an event type, a prefix ending in *, or *"

/** An event type, a prefix that ends in `*`, or `*`. */
export const EventTypePattern = text(1, maxPatternLength)
  .pipe(Schema.check(Schema.isPattern(pattern, { expected: patternExpected })))
  .annotate({ component: "EventTypePattern", examples: ["com.application-manager.trial-user.*"] })

/** The patterns of a list with commas between them. */
export const patternsIn = (list: string): ReadonlyArray<string> => list.split(",").map((one) => one.trim())

/** Several of these in a query parameter. */
export const EventTypePatterns = text(1, 4096)
  .pipe(
    Schema.check(
      Schema.makeFilter((list: string) => {
        const wrong = patternsIn(list).find((one) => one.length > maxPatternLength || !pattern.test(one))
        return wrong === undefined
          ? undefined
          : `Expected ${patternExpected}, of ${maxPatternLength} characters at most, not ${JSON.stringify(wrong)}`
      })
    )
  )
  .annotate({
    description: "Event types with commas between them; one may be a prefix that ends in `*`",
    examples: ["com.application-manager.trial-user.*"]
  })

/** Whether one of the patterns is of the type. */
export const matchesType = (patterns: ReadonlyArray<string>, type: string): boolean =>
  patterns.some((pattern) => (pattern.endsWith("*") ? type.startsWith(pattern.slice(0, -1)) : pattern === type))

/** A place in the log: `sequence` of an event, with or without its leading zeros. */
export const SequenceParameter = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^0*\d{1,15}$/u, { expected: "the sequence of an event" }), Schema.isMaxLength(20))
).annotate({ description: "`sequence` of the last event received", examples: ["00000000000000000042"] })

export const EventTypeView = Schema.Struct({
  type: Schema.String.annotate({ examples: ["com.application-manager.trial-user.created"] }),
  actionType: Schema.String.annotate({ examples: ["UserCreated"] })
}).annotate({ identifier: "EventType" })

export class EventsExpired extends Problem<EventsExpired>()("EventsExpired", {
  slug: "events-expired",
  status: 410,
  meaning:
    "Events behind this place were dropped by retention; continue without a cursor, with the oldest event that is kept."
}) {}
