import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/access.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { ArrayLimit, cursor } from "../../kernel/page.ts"
import { integerParameter } from "../../kernel/parameter.ts"
import { Created, LinkedArray } from "../../kernel/location.ts"
import { text } from "../../kernel/text.ts"
import {
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
    HttpApiEndpoint.get("list", "/", {
      query: {
        active: Schema.optionalKey(Schema.Boolean),
        limit: Schema.optionalKey(integerParameter(ArrayLimit)),
        cursor: Schema.optionalKey(cursor(TrialUserId))
      },
      success: LinkedArray(TrialUser.json)
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "List trial users",
          description: "In the order of their ids; `active` filters `isActive`."
        })
      ),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: integerParameter(TrialUserId) },
      success: TrialUser.json,
      error: TrialUserNotFound
    })
      .annotateMerge(read)
      .annotateMerge(OpenApi.annotations({ summary: "Get a trial user", description: "One trial user by id." })),
    HttpApiEndpoint.get("getByEmail", "/by-email/:email", {
      params: { email: text(1, 320).annotate({ examples: ["ada@example.com"] }) },
      success: TrialUser.json,
      error: TrialUserNotFound
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({ summary: "Find a trial user by e-mail", description: "Compared without regard to case." })
      ),
    HttpApiEndpoint.post("create", "/", {
      payload: TrialUser.jsonCreate,
      success: Created(TrialUser.json),
      error: EmailTaken
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Create a trial user",
          description: "Active at once; the trial starts now and ends after `TrialUsers:TrialDays`."
        })
      ),
    HttpApiEndpoint.patch("update", "/:id", {
      params: { id: integerParameter(TrialUserId) },
      payload: TrialUserPatch,
      success: TrialUser.json,
      error: [TrialUserNotFound, EmailTaken, TrialEndsBeforeStart]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Change a trial user",
          description: "Any subset of the members. Deactivating ends the user's sessions in the same transaction."
        })
      ),
    HttpApiEndpoint.delete("delete", "/:id", {
      params: { id: integerParameter(TrialUserId) },
      success: HttpApiSchema.NoContent,
      error: TrialUserNotFound
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Delete a trial user",
          description: "Ends the user's sessions, which stay for the audit, and frees the e-mail address."
        })
      )
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/trial-users")
  .annotateMerge(OpenApi.annotations({ title: "Trial users", description: "People let in for a trial." })) {}
