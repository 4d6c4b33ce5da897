import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import {
  ConfigurationVersion,
  ConfigurationVersionNotFound,
  VersionNumber
} from "../../applications/configuration/model/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { LinkedArray } from "../../kernel/http/location.ts"
import { arrayQuery } from "../../kernel/http/page.ts"
import { PayloadTooLarge, ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { CatalogueDocument } from "../catalog/catalogue-domain.ts"
import { GatewayDocument, GatewayReload } from "./configuration-domain.ts"

const admin = requires("llm:admin", { systemOnly: true })
const writeBodyBytes = 8_388_608

const tag = {
  etag: Schema.String.annotate({
    description: 'The version in quotes; `"0"` while none was ever written',
    examples: ['"1"']
  })
}
const Tagged = HttpApiSchema.WithHeaders(GatewayDocument, tag)
const TaggedCatalogue = HttpApiSchema.WithHeaders(CatalogueDocument, tag)

export class LlmAdminApi extends HttpApiGroup.make("llmAdmin")
  .add(
    endpoint.get("getConfiguration", "/config", {
      summary: "Get the gateway's configuration",
      description:
        "With its ETag. While none was ever written, what runs of the environment. No key is ever shown: only references to keys.",
      access: admin,
      answersResource: true,
      success: Tagged
    }),
    endpoint.put("putConfiguration", "/config", {
      summary: "Replace the gateway's configuration",
      description:
        "The document is validated as a whole and every fault is reported. A valid document becomes a new version and takes effect here at once, on other replicas soon after. A literal key is encrypted and replaced by `secret:<id>`.",
      access: admin,
      maxBodyBytes: writeBodyBytes,
      evaluation: "by-service",
      payload: GatewayDocument,
      success: Tagged,
      error: [PayloadTooLarge, ValidationFailed]
    }),
    endpoint.get("versions", "/config/versions", {
      summary: "List the versions of the gateway's configuration",
      description: "Newest first, 100 by default; `content` is the document as JSON text.",
      access: admin,
      query: {
        ...arrayQuery(VersionNumber)
      },
      success: LinkedArray(ConfigurationVersion.json)
    }),
    endpoint.post("rollback", "/config/rollback", {
      summary: "Roll the gateway's configuration back",
      description: "Adds a version with the content of an earlier one, checked again, and runs it.",
      access: admin,
      evaluation: "by-service",
      payload: Schema.Struct({ version: VersionNumber }),
      success: Tagged,
      error: [ConfigurationVersionNotFound, PayloadTooLarge, ValidationFailed]
    }),
    endpoint.get("getCatalogue", "/catalogue", {
      summary: "Get the catalogue of models",
      description: "The one that was written last, with its ETag; the built-in one while none was ever written.",
      access: admin,
      answersResource: true,
      success: TaggedCatalogue
    }),
    endpoint.put("putCatalogue", "/catalogue", {
      summary: "Update prices and models",
      description:
        "In the form of the built-in catalogue, whose other models stay. It becomes a new version and takes effect here at once, on other replicas soon after; calls that have begun keep their prices.",
      access: admin,
      maxBodyBytes: writeBodyBytes,
      evaluation: "by-service",
      payload: CatalogueDocument,
      success: TaggedCatalogue,
      error: [PayloadTooLarge, ValidationFailed]
    }),
    endpoint.get("catalogueVersions", "/catalogue/versions", {
      summary: "List the versions of the catalogue",
      description: "Newest first, 100 by default; `content` is the document as JSON text.",
      access: admin,
      query: {
        ...arrayQuery(VersionNumber)
      },
      success: LinkedArray(ConfigurationVersion.json)
    })
  )
  .middleware(Idempotency)
  .add(
    endpoint.post("reload", "/reload", {
      summary: "Read the gateway's configuration again",
      description:
        "Also reads again every key that it refers to, here and on every replica; with Llm:ConfigFileWins the file comes first. An invalid configuration is rejected and the running one stays.",
      access: admin,
      success: GatewayReload,
      error: [PayloadTooLarge, ValidationFailed]
    })
  )
  .middleware(Access)
  .prefix("/api/llm/admin")
  .annotateMerge(
    OpenApi.annotations({ title: "LLM gateway administration", description: "Which providers and models there are." })
  ) {}
