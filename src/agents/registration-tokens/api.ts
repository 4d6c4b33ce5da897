import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { OneTimeSecrets } from "../../platform/idempotency/domain.ts"
import {
  registrationTokenListing,
  NewRegistrationToken,
  RegistrationTokenCreation,
  RegistrationTokenId,
  RegistrationTokenNotFound,
  RegistrationTokenView
} from "./domain.ts"

const read = requires("applications:read", { systemOnly: true })
const write = requires("applications:write", { systemOnly: true })
const registrationTokens = crudEndpoints("a registration token", {
  read,
  write,
  id: RegistrationTokenId,
  view: RegistrationTokenView,
  notFound: RegistrationTokenNotFound
})

export class RegistrationTokensApi extends HttpApiGroup.make("registrationTokens")
  .add(
    registrationTokens.list({
      description: "In order of creation, used up and expired ones too; never the tokens themselves.",
      query: registrationTokenListing.query({}),
      success: page(RegistrationTokenView, registrationTokenListing.position)
    }),
    registrationTokens.get({ description: "What is known of one token." }),
    endpoint
      .post("create", "/", {
        summary: "Create a registration token",
        description:
          "`token` is in this response only. As many applications as it has uses register with it at `/api/applications/register`, and wait for an approval then.",
        access: write,
        payload: RegistrationTokenCreation,
        success: Created(NewRegistrationToken)
      })
      .annotate(OneTimeSecrets, ["token"]),
    registrationTokens.delete({ description: "No application registers with it any more. What has registered stays." })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/applications/registration-tokens")
  .annotateMerge(
    OpenApi.annotations({
      title: "Registration tokens",
      description: "Initial access tokens (RFC 7591): who has one may register an application."
    })
  ) {}
