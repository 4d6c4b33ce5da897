import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { JsonWebKeys } from "../../../audit/signing-keys/domain.ts"
import { endpoint } from "../../../kernel/http/endpoint.ts"

const url = (path: string) => Schema.String.annotate({ examples: [`http://127.0.0.1:11402/workload${path}`] })

/** What vendors find out about an issuer (OpenID Connect Discovery 1.0, section 3). */
const WorkloadConfiguration = Schema.Struct({
  issuer: url(""),
  jwks_uri: url("/jwks.json"),
  response_types_supported: Schema.Array(Schema.Literal("id_token")),
  subject_types_supported: Schema.Array(Schema.Literal("public")),
  id_token_signing_alg_values_supported: Schema.Array(Schema.Literal("RS256"))
}).annotate({ identifier: "WorkloadConfiguration" })

export class WorkloadApi extends HttpApiGroup.make("workload")
  .add(
    endpoint.get("configuration", "/.well-known/openid-configuration", {
      summary: "Get the configuration of the gateway's issuer",
      description:
        "For vendors that give the gateway credentials for its assertions instead of a key. They are of another issuer than the tokens of agents, and no endpoint here takes them. No credential.",
      success: WorkloadConfiguration
    }),
    endpoint.get("keys", "/jwks.json", {
      summary: "Get the keys of the gateway's issuer",
      description:
        "A JWK set (RFC 7517) with RS256 keys, for vendors that fetch it or are given it; a new key is in it two days before it signs. No credential.",
      success: JsonWebKeys
    })
  )
  .prefix("/workload")
  .annotateMerge(
    OpenApi.annotations({
      title: "Workload issuer",
      description: "Who the gateway is, for vendors that trust its assertions."
    })
  ) {}
