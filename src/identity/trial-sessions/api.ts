import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/access.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { Created, LinkedArray } from "../../kernel/location.ts"
import { ArrayLimit, cursor } from "../../kernel/page.ts"
import { integerParameter } from "../../kernel/parameter.ts"
import { TrialUserId, TrialUserNotFound } from "../trial-users/domain.ts"
import { NewSession, Session, SessionId, SessionInactive, SessionNotFound, TrialUserInactive } from "./domain.ts"

const read = requires("sessions:read", { systemOnly: true })
const write = requires("sessions:write", { systemOnly: true })

export class SessionsApi extends HttpApiGroup.make("sessions")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        userId: Schema.optionalKey(integerParameter(TrialUserId)),
        active: Schema.optionalKey(Schema.Boolean),
        limit: Schema.optionalKey(integerParameter(ArrayLimit)),
        cursor: Schema.optionalKey(cursor(SessionId))
      },
      success: LinkedArray(Session.json)
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "List sessions",
          description: "In the order of their ids; the filters combine."
        })
      ),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: integerParameter(SessionId) },
      success: Session.json,
      error: SessionNotFound
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({ summary: "Get a session", description: "One session by id, ended or not." })
      ),
    HttpApiEndpoint.post("create", "/", {
      payload: NewSession,
      success: Created(Session.json),
      error: [TrialUserNotFound, TrialUserInactive]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Open a session",
          description: "For a trial user who is active and whose trial is not over."
        })
      ),
    HttpApiEndpoint.post("touch", "/:id/activity", {
      params: { id: integerParameter(SessionId) },
      success: HttpApiSchema.NoContent,
      error: [SessionNotFound, SessionInactive]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Report activity",
          description: "Sets `lastActivityAt` to now, which keeps the session from ending idle."
        })
      ),
    HttpApiEndpoint.delete("end", "/:id", {
      params: { id: integerParameter(SessionId) },
      success: HttpApiSchema.NoContent,
      error: SessionNotFound
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "End a session",
          description: "The row stays with `isActive` false; ending it again changes nothing."
        })
      )
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/sessions")
  .annotateMerge(OpenApi.annotations({ title: "Sessions", description: "What trial users have open." })) {}
