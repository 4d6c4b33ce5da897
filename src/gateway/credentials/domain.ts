import { Schema } from "effect"
import { member } from "../../kernel/text.ts"

const optional = Schema.optionalKey

/** A key of a provider, or a reference to one. */
export const ApiKey = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^[\x21-\x7e]{1,4096}$/u, { expected: "visible ASCII without spaces" }))
).annotate({
  description:
    "`env:NAME`, `file:NAME` below Llm:SecretsDirectory, or `secret:<id>`; a key given as it is gets sealed and replaced by the last",
  examples: ["env:OPENAI_API_KEY"]
})

const matching = (pattern: RegExp, expected: string, example: string) =>
  Schema.String.pipe(Schema.check(Schema.isPattern(pattern, { expected }))).annotate({ examples: [example] })

const Assertion = Schema.String.pipe(
  Schema.check(
    Schema.isPattern(/^(?:issuer|file:[A-Za-z0-9_-][A-Za-z0-9._/-]{0,500})$/u, {
      expected: "`issuer`, or `file:` and the name of a file below Llm:SecretsDirectory"
    })
  )
).annotate({ examples: ["issuer"] })

const assertion = (otherwise: string) =>
  member(
    optional(Assertion),
    `What proves who the gateway is: \`issuer\` for a token of its own issuer, \`{Api:PublicUrl}/workload\`, or \`file:NAME\` for one that the platform writes below Llm:SecretsDirectory and renews; ${otherwise} unless given`
  )

const Identifier = matching(
  /^[A-Za-z0-9][A-Za-z0-9._~-]{0,199}$/u,
  "1 to 200 letters, digits, '.', '_', '~' and '-'",
  "fdrl_01"
)

/** A key in a header of its own. */
export const KeyCredential = Schema.Struct({
  type: Schema.Literal("key"),
  header: member(
    matching(/^[A-Za-z0-9-]{1,128}$/u, "the name of a header", "api-key"),
    "The header that it is sent in, such as `api-key` of Azure"
  ),
  value: member(ApiKey, "The key, given as `apiKey` is")
}).annotate({ identifier: "KeyCredential" })

/** A token of Microsoft Entra ID for Azure. */
export const EntraCredential = Schema.Struct({
  type: Schema.Literal("entra"),
  tenantId: member(
    optional(
      matching(
        /^[A-Za-z0-9][A-Za-z0-9.-]{0,99}$/u,
        "the id or a domain of a tenant",
        "72f988bf-86f1-41af-91ab-2d7cd011db47"
      )
    ),
    "The directory; `AZURE_TENANT_ID`, and none for a managed identity, unless given"
  ),
  clientId: member(
    optional(Identifier),
    "The application, or a managed identity that the user assigned; `AZURE_CLIENT_ID`, or the system's own managed identity, unless given"
  ),
  secret: member(
    optional(ApiKey),
    "The application's secret, given as `apiKey` is; an assertion or a managed identity unless given"
  ),
  assertion: assertion("the file of `AZURE_FEDERATED_TOKEN_FILE` if that is set, else a managed identity,"),
  scope: member(
    optional(
      matching(
        /^https:\/\/[a-z0-9.-]{1,200}\/\.default$/u,
        "https://<resource>/.default",
        "https://ai.azure.com/.default"
      )
    ),
    "What the token is for; `https://ai.azure.com/.default`, or `https://cognitiveservices.azure.com/.default` for deployments, unless given"
  )
}).annotate({ identifier: "EntraCredential" })
export type EntraCredential = typeof EntraCredential.Type

/** Keys of AWS, with which each request is signed. */
export const AwsCredential = Schema.Struct({
  type: Schema.Literal("aws"),
  roleArn: member(
    optional(
      matching(
        /^arn:aws[a-z-]*:iam::\d{12}:role\/[\x21-\x7e]{1,512}$/u,
        "the ARN of a role",
        "arn:aws:iam::123456789012:role/gateway"
      )
    ),
    "The role whose keys are used; those of the environment, the container or the machine unless given"
  ),
  region: member(
    optional(matching(/^[a-z]{2}(?:-[a-z]+)+-\d+$/u, "a region of AWS", "eu-central-1")),
    "The region; as the host's name says unless given"
  ),
  externalId: member(
    optional(matching(/^[\w+=,.@:/-]{2,1224}$/u, "an external id of AWS", "a-1")),
    "What the role's trust policy asks for; nothing unless given"
  ),
  assertion: assertion(
    "`AWS_WEB_IDENTITY_TOKEN_FILE` if that is set, else the other keys of the environment, the container or the machine,"
  )
}).annotate({ identifier: "AwsCredential" })
export type AwsCredential = typeof AwsCredential.Type

/** A token of Google Cloud. */
export const GoogleCredential = Schema.Struct({
  type: Schema.Literal("google"),
  keyFile: member(
    optional(
      matching(
        /^file:[A-Za-z0-9_-][A-Za-z0-9._/-]{0,500}$/u,
        "`file:` and the name of a file below Llm:SecretsDirectory",
        "file:vertex.json"
      )
    ),
    "A file of credentials below Llm:SecretsDirectory: the key of a service account, or a configuration of workload identity federation (`external_account`); the file that `GOOGLE_APPLICATION_CREDENTIALS` names, or else the service account of the machine, unless given"
  ),
  audience: member(
    optional(
      matching(
        /^\/\/iam\.googleapis\.com\/[A-Za-z0-9._~/-]{1,400}$/u,
        "the full name of a provider of a workload identity pool",
        "//iam.googleapis.com/projects/123456789/locations/global/workloadIdentityPools/gateways/providers/manager"
      )
    ),
    "The provider of a workload identity pool that takes `assertion`, in the place of a file; none unless given"
  ),
  assertion: assertion("with `audience`, `issuer`"),
  impersonate: member(
    optional(
      matching(
        /^[a-z0-9][a-z0-9.-]{0,99}@[a-z0-9.-]{1,150}\.gserviceaccount\.com$/u,
        "the e-mail address of a service account",
        "gateway@my-project.iam.gserviceaccount.com"
      )
    ),
    "The service account whose token is used; as the file says, or the identity itself, unless given"
  )
}).annotate({ identifier: "GoogleCredential" })
export type GoogleCredential = typeof GoogleCredential.Type

const audience = (usual: string) =>
  member(
    optional(matching(/^[\x21-\x7e]{1,500}$/u, "visible ASCII without spaces", usual)),
    `The \`aud\` of the issuer's assertion; \`${usual}\` unless given`
  )

/** A token of Anthropic for a federated identity. */
const AnthropicFederation = Schema.Struct({
  type: Schema.Literal("federation"),
  vendor: Schema.Literal("anthropic"),
  ruleId: member(Identifier, "The federation rule that the assertion is to match"),
  organizationId: member(Identifier, "The organization"),
  serviceAccountId: member(Identifier, "Whom the token is for"),
  workspaceId: member(optional(Identifier), "The workspace; the rule's unless given"),
  assertion: assertion("`issuer`"),
  audience: audience("https://api.anthropic.com")
}).annotate({ identifier: "AnthropicFederation" })
export type AnthropicFederation = typeof AnthropicFederation.Type

/** A token of OpenAI for a federated identity. */
const OpenAiFederation = Schema.Struct({
  type: Schema.Literal("federation"),
  vendor: Schema.Literal("openai"),
  identityProviderId: member(Identifier, "The identity provider that the organization knows the issuer as"),
  serviceAccountId: member(Identifier, "Whom the token is for"),
  assertion: assertion("`issuer`"),
  audience: audience("https://api.openai.com/v1")
}).annotate({ identifier: "OpenAiFederation" })
export type OpenAiFederation = typeof OpenAiFederation.Type

/** A token of OpenRouter for a federated identity. */
const OpenRouterFederation = Schema.Struct({
  type: Schema.Literal("federation"),
  vendor: Schema.Literal("openrouter"),
  policyId: member(Identifier, "The federation policy that the assertion is to match"),
  assertion: assertion("`issuer`"),
  audience: audience("https://openrouter.ai")
}).annotate({ identifier: "OpenRouterFederation" })
export type OpenRouterFederation = typeof OpenRouterFederation.Type

/** How a provider is authorized without a key that stays. */
export const ConfiguredCredential = Schema.Union([
  KeyCredential,
  AwsCredential,
  EntraCredential,
  GoogleCredential,
  AnthropicFederation,
  OpenAiFederation,
  OpenRouterFederation
]).annotate({
  identifier: "ProviderCredential"
})
export type ConfiguredCredential = typeof ConfiguredCredential.Type
