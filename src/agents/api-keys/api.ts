import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { ApplicationId, ApplicationNotFound } from "../../applications/applications/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { integerParameter } from "../../kernel/http/parameter.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { OneTimeSecrets } from "../../platform/idempotency/domain.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import {
  ApiKeyCreation,
  ApiKeyId,
  ApiKeyInactive,
  apiKeyListing,
  ApiKeyNotFound,
  ApiKeyPatch,
  ApiKeyRotated,
  ApiKeyRotation,
  ApiKeySynthetic,
  ApiKeyView,
  ExpiresInThePast,
  NewApiKeyView
} from "./domain.ts"

const read = requires("api-keys:read")
const write = requires("api-keys:write")
const apiKeys = crudEndpoints("an API key", { read, write, id: ApiKeyId, view: ApiKeyView, notFound: ApiKeyNotFound })

export class ApiKeysApi extends HttpApiGroup.make("apiKeys")
  .add(
    apiKeys.list({
      description:
        "A tenant's caller sees the keys of its tenant, a system caller all of them. Never the keys themselves.",
      query: apiKeyListing.query({
        tenantId: Schema.optionalKey(TenantId),
        applicationId: Schema.optionalKey(integerParameter(ApplicationId))
      }),
      success: page(ApiKeyView, apiKeyListing.position)
    }),
    apiKeys.get({ description: "What is known of one key." }),
    endpoint
      .post("create", "/", {
        summary: "Create an API key",
        description:
          "`key` is in this response only. The caller needs every scope that it grants. Without `tenantId` the key belongs to the caller's tenant; a system caller creates a system key. The key of a caller that ends must end no later, and that of an application's caller belongs to the application.",
        access: write,
        payload: ApiKeyCreation,
        success: Created(NewApiKeyView),
        error: [TenantNotFound, ApplicationNotFound, ExpiresInThePast]
      })
      .annotate(OneTimeSecrets, ["key"]),
    apiKeys.update({
      description:
        "Name, scopes, expiry. The caller needs every scope that the key has before and after, and a caller that ends or belongs to an application changes only keys that end no later and belong to it.",
      payload: ApiKeyPatch,
      error: [ApiKeyInactive, ApiKeyRotated, ApiKeySynthetic, ExpiresInThePast]
    }),
    endpoint
      .post("rotate", "/:id/rotate", {
        summary: "Rotate an API key",
        description:
          "Makes a new key with the same rights; the old one works until `graceSeconds` are over, and can then only be revoked.",
        access: write,
        params: { id: ApiKeyId },
        payload: ApiKeyRotation,
        success: Created(NewApiKeyView),
        error: [ApiKeyNotFound, ApiKeyInactive, ApiKeyRotated, ApiKeySynthetic]
      })
      .annotate(OneTimeSecrets, ["key"]),
    endpoint.delete("revoke", "/:id", {
      summary: "Revoke an API key",
      description: "Ends the key at once on this replica, within a second on the others. Repeating it is 204.",
      access: write,
      params: { id: ApiKeyId },
      error: [ApiKeyNotFound, ApiKeySynthetic]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/api-keys")
  .annotateMerge(
    OpenApi.annotations({ title: "API keys", description: "Keys with scopes, of a tenant or system-wide." })
  ) {}
