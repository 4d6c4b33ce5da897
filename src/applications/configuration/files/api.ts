import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../../../kernel/authority/access.ts"
import { RateLimited } from "../../../kernel/authority/principal.ts"
import { endpoint } from "../../../kernel/http/endpoint.ts"
import { LinkedArray } from "../../../kernel/http/location.ts"
import { arrayQuery } from "../../../kernel/http/page.ts"
import { integerParameter } from "../../../kernel/http/parameter.ts"
import { PayloadTooLarge, ValidationFailed } from "../../../kernel/problems/problems.ts"
import { Idempotency } from "../../../platform/idempotency/api.ts"
import { ApplicationId, ApplicationNotFound } from "../../applications/domain.ts"
import {
  ConfigurationContent,
  ConfigurationCycle,
  ConfigurationDiff,
  ConfigurationEvent,
  ConfigurationFile,
  ConfigurationId,
  ConfigurationManaged,
  ConfigurationNameTaken,
  ConfigurationNoFile,
  ConfigurationNotFound,
  ConfigurationParentUnfit,
  ConfigurationPatch,
  ConfigurationSchemaInUse,
  ConfigurationSchemaUnfit,
  ConfigurationTooDeep,
  ConfigurationVersion,
  ConfigurationVersionNotFound,
  DeletedConfiguration,
  NewConfiguration,
  VersionNumber
} from "../model/domain.ts"
import { NodePath } from "../model/path-domain.ts"

const read = requires("configuration:read", { systemOnly: true })
const write = requires("configuration:write", { systemOnly: true })
const rollback = requires("configuration:rollback", { systemOnly: true })
const writeBodyBytes = 8_388_608

const id = { id: integerParameter(ConfigurationId) }
const application = { applicationId: integerParameter(ApplicationId) }
const EntityTag = Schema.String.annotate({
  description:
    "The version of a file in quotes (0 of a folder), with a suffix once the node was moved, renamed or given another schema",
  examples: ['"1"']
})
const Tagged = HttpApiSchema.WithHeaders(ConfigurationFile, { etag: EntityTag })
const CreatedFile = HttpApiSchema.WithHeaders(ConfigurationFile.pipe(HttpApiSchema.status(201)), {
  location: Schema.String.annotate({ description: "Path of the new node", examples: ["/api/configuration/42"] }),
  etag: EntityTag
})

export class ConfigurationApi extends HttpApiGroup.make("configuration")
  .add(
    endpoint.get("getByPath", "/by-path", {
      answersResource: true,
      summary: "Find a file or folder by its path",
      description: "A file comes with its content and its ETag. Names are compared exactly.",
      access: read,
      query: { ...application, path: NodePath },
      success: Tagged,
      error: ConfigurationNotFound
    }),
    endpoint.get("deleted", "/deleted", {
      summary: "List what can be restored",
      description: "Files and folders deleted within the last 30 days, the latest first, at most 1,000.",
      access: read,
      query: application,
      success: Schema.Array(DeletedConfiguration),
      error: ApplicationNotFound
    }),
    endpoint.get("get", "/:id", {
      summary: "Get a file or folder",
      description: "A file comes with its content and its ETag.",
      access: read,
      params: id,
      success: Tagged,
      error: ConfigurationNotFound
    }),
    endpoint.post("create", "/", {
      summary: "Create a file or folder",
      description: "A file begins with version 1. With `schemaId` its content is checked before it is stored.",
      access: write,
      maxBodyBytes: writeBodyBytes,
      payload: NewConfiguration,
      success: CreatedFile,
      error: [
        ApplicationNotFound,
        ConfigurationManaged,
        ConfigurationNameTaken,
        ConfigurationParentUnfit,
        ConfigurationSchemaUnfit,
        ConfigurationTooDeep,
        PayloadTooLarge,
        ValidationFailed
      ]
    }),
    endpoint.put("save", "/:id", {
      summary: "Save a file",
      description:
        "Adds a version, even if the content is the same. With If-Match, only if the current version matches.",
      access: write,
      maxBodyBytes: writeBodyBytes,
      params: id,
      evaluation: "by-service",
      payload: ConfigurationContent,
      success: Tagged,
      error: [ConfigurationManaged, ConfigurationNoFile, ConfigurationNotFound, PayloadTooLarge, ValidationFailed]
    }),
    endpoint.patch("move", "/:id", {
      summary: "Rename or move a file or folder",
      description: "Any of `name`, `parentId` (null is the root) and `schemaId` (null is none).",
      access: write,
      maxBodyBytes: writeBodyBytes,
      params: id,
      evaluation: "by-service",
      payload: ConfigurationPatch,
      success: Tagged,
      error: [
        ConfigurationCycle,
        ConfigurationManaged,
        ConfigurationNameTaken,
        ConfigurationNotFound,
        ConfigurationParentUnfit,
        ConfigurationSchemaUnfit,
        ConfigurationTooDeep,
        ValidationFailed
      ]
    }),
    endpoint.delete("delete", "/:id", {
      summary: "Delete a file or folder",
      description: "A folder with everything below it. For 30 days it can be restored; then it is gone for good.",
      access: write,
      params: id,
      evaluation: "by-service",
      error: [ConfigurationManaged, ConfigurationNotFound, ConfigurationSchemaInUse]
    }),
    endpoint.post("restore", "/:id/restore", {
      evaluation: "by-service",
      summary: "Restore what was deleted",
      description:
        "Restores everything that was deleted with it, in its place; a node that is not deleted stays as it is.",
      access: write,
      params: id,
      success: Tagged,
      error: [
        ConfigurationManaged,
        ConfigurationNameTaken,
        ConfigurationNotFound,
        ConfigurationParentUnfit,
        ConfigurationSchemaUnfit,
        ConfigurationTooDeep
      ]
    }),
    endpoint.get("versions", "/:id/versions", {
      summary: "List the versions of a file",
      description:
        "Newest first, 100 by default; a page ends before its contents exceed 1 MiB, but has one version at least.",
      access: read,
      params: id,
      query: {
        ...arrayQuery(VersionNumber)
      },
      success: LinkedArray(ConfigurationVersion.json),
      error: [ConfigurationNotFound, ConfigurationNoFile]
    }),
    endpoint.get("version", "/:id/versions/:version", {
      summary: "Get a version of a file",
      description: "One version with its content.",
      access: read,
      params: { ...id, version: integerParameter(VersionNumber) },
      success: ConfigurationVersion.json,
      error: [ConfigurationNotFound, ConfigurationNoFile, ConfigurationVersionNotFound]
    }),
    endpoint.get("diff", "/:id/diff", {
      summary: "Compare two versions of a file",
      description:
        "A unified diff, as JSON where Accept prefers it. By default `to` is the newest version and `from` the one before it.",
      access: read,
      answersIn: ["text/x-diff", "application/json"],
      params: id,
      query: {
        from: Schema.optionalKey(integerParameter(VersionNumber)),
        to: Schema.optionalKey(integerParameter(VersionNumber))
      },
      success: [
        Schema.String.annotate({ examples: ["@@ -1 +1 @@\n-retries: 3\n+retries: 5\n"] }).pipe(
          HttpApiSchema.asText({ contentType: "text/x-diff" })
        ),
        ConfigurationDiff
      ],
      error: [ConfigurationNotFound, ConfigurationNoFile, ConfigurationVersionNotFound]
    }),
    endpoint.post("rollback", "/:id/rollback", {
      summary: "Roll a file back",
      description: "Adds a version with the content of an earlier one; nothing of the history is lost.",
      access: rollback,
      params: id,
      evaluation: "by-service",
      payload: Schema.Struct({ version: VersionNumber }),
      success: Tagged,
      error: [
        ConfigurationManaged,
        ConfigurationNoFile,
        ConfigurationNotFound,
        ConfigurationVersionNotFound,
        ValidationFailed
      ]
    }),
    endpoint.get("watch", "/:id/watch", {
      summary: "Watch a file",
      description:
        "Server-Sent Events: `version` with the current version at once and with every newer one, on every replica. A slow client gets the newest only. The stream ends when the file is deleted, the key loses its rights or the process ends; then reconnect.",
      access: read,
      answersIn: ["text/event-stream"],
      params: id,
      success: HttpApiSchema.StreamSse({
        events: Schema.Struct({
          id: Schema.optionalKey(Schema.String),
          event: Schema.Literal("version"),
          data: Schema.fromJsonString(ConfigurationEvent)
        })
      }),
      error: [ConfigurationNotFound, ConfigurationNoFile, RateLimited]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/configuration")
  .annotateMerge(
    OpenApi.annotations({ title: "Configuration", description: "Version-controlled files of applications." })
  ) {}
