import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../auth/api.ts"
import { cursor, page, PageLimit } from "../kernel/page.ts"
import { integerParameter } from "../kernel/parameter.ts"
import {
  AuditCursor,
  AuditEntry,
  AuditEntryDetail,
  AuditEntryId,
  AuditEntryNotFound,
  AuditFilter,
  AuditActionView
} from "./domain.ts"

const read = requires("audit-logs:read")
const position = cursor(AuditCursor)

export class AuditApi extends HttpApiGroup.make("auditLogs")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        ...AuditFilter.fields,
        limit: Schema.optionalKey(integerParameter(PageLimit)),
        cursor: Schema.optionalKey(position)
      },
      success: page(AuditEntry.json, position)
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "List audit entries",
          description:
            "Newest first. The filters combine; `startDate` (after) and `endDate` (before) exclude the moment itself. A tenant's caller sees the entries of its tenant."
        })
      ),
    HttpApiEndpoint.get("types", "/types", { success: Schema.Array(AuditActionView) })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({ summary: "List action types", description: "Every `actionType` that an entry may have." })
      ),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: AuditEntryId },
      success: AuditEntryDetail,
      error: AuditEntryNotFound
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Get an audit entry",
          description: "One entry with the thing's members before and after; secrets are never among them."
        })
      )
  )
  .middleware(Access)
  .prefix("/api/audit-logs")
  .annotateMerge(OpenApi.annotations({ title: "Audit log", description: "Who did what, when, from where." })) {}
