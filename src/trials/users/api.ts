import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { booleanParameter, integerParameter } from "../../kernel/http/parameter.ts"
import { Created, LinkedArray } from "../../kernel/http/location.ts"
import { text } from "../../kernel/text.ts"
import {
  trialUserListing,
  EmailTaken,
  TrialEndsBeforeStart,
  TrialUser,
  TrialUserId,
  TrialUserNotFound,
  TrialUserPatch
} from "./domain.ts"

const read = requires("trial-users:read", { systemOnly: true })
const write = requires("trial-users:write", { systemOnly: true })

export class TrialUsersApi extends HttpApiGroup.make("trialUsers")
  .add(
    endpoint.get("list", "/", {
      summary: "List trial users",
      description: "In the order of their ids; `active` filters `isActive`.",
      access: read,
      query: trialUserListing.query({
        active: Schema.optionalKey(booleanParameter)
      }),
      success: LinkedArray(TrialUser.json)
    }),
    endpoint.get("get", "/:id", {
      summary: "Get a trial user",
      description: "One trial user by id.",
      access: read,
      params: { id: integerParameter(TrialUserId) },
      success: TrialUser.json,
      error: TrialUserNotFound
    }),
    endpoint.get("getByEmail", "/by-email/:email", {
      summary: "Find a trial user by e-mail",
      description: "Compared without regard to case.",
      access: read,
      params: { email: text(1, 320).annotate({ examples: ["ada@example.com"] }) },
      success: TrialUser.json,
      error: TrialUserNotFound
    }),
    endpoint.post("create", "/", {
      summary: "Create a trial user",
      description: "Active at once; the trial starts now and ends after `TrialUsers:TrialDays`.",
      access: write,
      payload: TrialUser.jsonCreate,
      success: Created(TrialUser.json),
      error: EmailTaken
    }),
    endpoint.patch("update", "/:id", {
      summary: "Change a trial user",
      description: "Any subset of the members. Deactivating ends the user's sessions in the same transaction.",
      access: write,
      params: { id: integerParameter(TrialUserId) },
      payload: TrialUserPatch,
      success: TrialUser.json,
      error: [TrialUserNotFound, EmailTaken, TrialEndsBeforeStart]
    }),
    endpoint.delete("delete", "/:id", {
      summary: "Delete a trial user",
      description: "Ends the user's sessions, which remain for the audit, and frees the e-mail address.",
      access: write,
      params: { id: integerParameter(TrialUserId) },
      error: TrialUserNotFound
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/trial-users")
  .annotateMerge(OpenApi.annotations({ title: "Trial users", description: "People admitted for a trial." })) {}
