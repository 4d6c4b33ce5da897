import { Schema, Struct } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../kernel/authority/access.ts"
import { RateLimited } from "../kernel/authority/principal.ts"
import { endpoint } from "../kernel/http/endpoint.ts"
import { cursor, page, pageQuery } from "../kernel/http/page.ts"
import { integerParameter } from "../kernel/http/parameter.ts"
import {
  AuditActionView,
  AuditCheckpoint,
  AuditCursor,
  AuditEntry,
  AuditEntryDetail,
  AuditEntryId,
  AuditEntryNotFound,
  AuditFilter,
  AuditSearch,
  Sequence,
  Verification
} from "./log/domain.ts"

const LastEventId = Schema.Int.pipe(
  Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))
).annotate({ description: "The `id` of the last event received", examples: [42] })

const read = requires("audit-logs:read")
const prove = requires("audit-logs:read", { systemOnly: true })
const checkpointPosition = cursor(Sequence)
const position = cursor(AuditCursor)

export class AuditApi extends HttpApiGroup.make("auditLogs")
  .add(
    endpoint.get("list", "/", {
      summary: "List audit entries",
      description:
        "Newest first. The filters combine; `startDate` (after) and `endDate` (before) exclude the moment itself. A tenant's caller sees the entries of its tenant.",
      access: read,
      query: {
        ...AuditSearch.fields,
        ...pageQuery(position)
      },
      success: page(AuditEntry.json, position)
    }),
    endpoint.get("types", "/types", {
      summary: "List action types",
      description: "Every `actionType` that an entry may have.",
      access: read,
      success: Schema.Array(AuditActionView)
    }),
    endpoint.get("checkpoints", "/checkpoints", {
      summary: "List signed checkpoints",
      description:
        "Newest first: places of the chain, signed every 1,000 entries or hour. Keep some elsewhere: then nothing before them can be changed unseen.",
      access: prove,
      query: {
        ...pageQuery(checkpointPosition)
      },
      success: page(AuditCheckpoint, checkpointPosition)
    }),
    endpoint.get("verify", "/verify", {
      summary: "Verify the log",
      description:
        "Checks every link from one sequence to another (all that are left when not given) against the entries as they are stored, the signed checkpoints and the head, and looks for entries without a link. Takes about a second for 100,000 entries; one replica does two at a time, others wait.",
      access: prove,
      query: {
        from: Schema.optionalKey(integerParameter(Sequence)),
        to: Schema.optionalKey(integerParameter(Sequence))
      },
      success: Verification
    }),
    endpoint.get("export", "/export", {
      summary: "Export the log",
      description:
        'Streams every entry that the caller may see and the filters let through, with the hashes that prove it: JSON Lines (the default), which `npm run audit:verify` verifies without a database, or CSV. Without a filter the lines come in the order of the chain. The last line of JSON Lines is a seal, `{"seal": JWS}`: a signature over the number and the hashes of the lines before it. The export is itself an entry.',
      access: requires("audit-logs:export"),
      answersIn: ["application/x-ndjson", "application/jsonl", "text/csv"],
      query: { ...AuditFilter.fields, format: Schema.optionalKey(Schema.Literals(["jsonl", "csv"])) },
      success: HttpApiSchema.StreamUint8Array({ contentType: ["application/x-ndjson", "text/csv"] })
    }),
    endpoint.get("stream", "/stream", {
      summary: "Follow the log",
      description:
        "Server-Sent Events `audit-entry`: `id` is the entry's sequence, `data` the entry as lists show it. Begins behind `Last-Event-ID`, else with what comes next, and gives the entries that the caller may see and the filters let through, in the order of the chain.",
      access: read,
      answersIn: ["text/event-stream"],
      query: Struct.omit(AuditFilter.fields, ["startDate", "endDate"]),
      headers: { "last-event-id": Schema.optionalKey(integerParameter(LastEventId)) },
      success: HttpApiSchema.StreamUint8Array({ contentType: "text/event-stream" }),
      error: RateLimited
    }),
    endpoint.get("get", "/:id", {
      summary: "Get an audit entry",
      description: "One entry with the thing's members before and after; secrets are never among them.",
      access: read,
      params: { id: AuditEntryId },
      success: AuditEntryDetail,
      error: AuditEntryNotFound
    })
  )
  .middleware(Access)
  .prefix("/api/audit-logs")
  .annotateMerge(OpenApi.annotations({ title: "Audit log", description: "Who did what, when, from where." })) {}
