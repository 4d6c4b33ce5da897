import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created, LinkedArray } from "../../kernel/http/location.ts"
import { booleanParameter, integerParameter } from "../../kernel/http/parameter.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TrialUserId, TrialUserNotFound } from "../users/domain.ts"
import {
  NewSession,
  Session,
  SessionId,
  SessionInactive,
  sessionListing,
  SessionNotFound,
  TrialUserInactive
} from "./domain.ts"

const read = requires("sessions:read", { systemOnly: true })
const write = requires("sessions:write", { systemOnly: true })

export class SessionsApi extends HttpApiGroup.make("sessions")
  .add(
    endpoint.get("list", "/", {
      summary: "List sessions",
      description: "In the order of their ids; the filters combine.",
      access: read,
      query: sessionListing.query({
        userId: Schema.optionalKey(integerParameter(TrialUserId)),
        active: Schema.optionalKey(booleanParameter)
      }),
      success: LinkedArray(Session.json)
    }),
    endpoint.get("get", "/:id", {
      summary: "Get a session",
      description: "One session by id, ended or not.",
      access: read,
      params: { id: integerParameter(SessionId) },
      success: Session.json,
      error: SessionNotFound
    }),
    endpoint.post("create", "/", {
      summary: "Open a session",
      description: "For a trial user who is active and whose trial is not over.",
      access: write,
      payload: NewSession,
      success: Created(Session.json),
      error: [TrialUserNotFound, TrialUserInactive]
    }),
    endpoint.post("touch", "/:id/activity", {
      summary: "Report activity",
      description: "Sets `lastActivityAt` to now, which keeps the session from ending idle.",
      access: write,
      params: { id: integerParameter(SessionId) },
      error: [SessionNotFound, SessionInactive]
    }),
    endpoint.delete("end", "/:id", {
      summary: "End a session",
      description: "The row stays with `isActive` false; ending it again changes nothing.",
      access: write,
      params: { id: integerParameter(SessionId) },
      error: SessionNotFound
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/sessions")
  .annotateMerge(OpenApi.annotations({ title: "Sessions", description: "Open sessions of trial users." })) {}
