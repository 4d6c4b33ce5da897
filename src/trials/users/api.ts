import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { LinkedArray } from "../../kernel/http/location.ts"
import { booleanParameter, integerParameter } from "../../kernel/http/parameter.ts"
import { text } from "../../kernel/text.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
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
const trialUsers = crudEndpoints("a trial user", {
  read,
  write,
  id: integerParameter(TrialUserId),
  view: TrialUser.json,
  notFound: TrialUserNotFound
})

export class TrialUsersApi extends HttpApiGroup.make("trialUsers")
  .add(
    trialUsers.list({
      description: "In the order of their ids; `active` filters `isActive`.",
      query: trialUserListing.query({
        active: Schema.optionalKey(booleanParameter)
      }),
      success: LinkedArray(TrialUser.json)
    }),
    trialUsers.get({ description: "One trial user by id." }),
    endpoint.get("getByEmail", "/by-email/:email", {
      summary: "Find a trial user by e-mail",
      description: "Compared without regard to case.",
      access: read,
      params: { email: text(1, 320).annotate({ examples: ["ada@example.com"] }) },
      success: TrialUser.json,
      error: TrialUserNotFound
    }),
    trialUsers.create({
      description: "Active at once; the trial starts now and ends after `TrialUsers:TrialDays`.",
      payload: TrialUser.jsonCreate,
      error: [EmailTaken]
    }),
    trialUsers.update({
      description: "Any subset of the members. Deactivating ends the user's sessions in the same transaction.",
      payload: TrialUserPatch,
      error: [EmailTaken, TrialEndsBeforeStart]
    }),
    trialUsers.delete({
      description: "Ends the user's sessions, which remain for the audit, and frees the e-mail address."
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/trial-users")
  .annotateMerge(OpenApi.annotations({ title: "Trial users", description: "People admitted for a trial." })) {}
