import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { ApplicationId, ApplicationNotFound } from "../../applications/domain.ts"
import { Access, requires } from "../../../kernel/access.ts"
import { Idempotency } from "../../../platform/idempotency/api.ts"
import { ArrayLimit, cursor } from "../../../kernel/page.ts"
import { integerParameter } from "../../../kernel/parameter.ts"
import { IfMatch, VersionMismatch } from "../../../kernel/precondition.ts"
import { LinkedArray } from "../../../kernel/location.ts"
import { PayloadTooLarge, ValidationFailed } from "../../../kernel/problems.ts"
import { AnswersIn, MaxBodyBytes } from "../../../kernel/validation.ts"
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
  TooManyWatchers,
  VersionNumber
} from "../model/domain.ts"
import { NodePath } from "../model/path-domain.ts"

const read = requires("configuration:read", { systemOnly: true })
const write = requires("configuration:write", { systemOnly: true })
const rollback = requires("configuration:rollback", { systemOnly: true })
const writeBodyBytes = 8_388_608

const id = { id: integerParameter(ConfigurationId) }
const application = { applicationId: integerParameter(ApplicationId) }
const ifMatch = { "if-match": Schema.optionalKey(IfMatch) }
const EntityTag = Schema.String.annotate({
  description: "The version of a file in quotes, for If-Match; absent of a folder",
  examples: ['"1"']
})
const Tagged = HttpApiSchema.WithHeaders(ConfigurationFile, { etag: Schema.optionalKey(EntityTag) })
const CreatedFile = HttpApiSchema.WithHeaders(ConfigurationFile.pipe(HttpApiSchema.status(201)), {
  location: Schema.String.annotate({ description: "Path of the new node", examples: ["/api/configuration/42"] }),
  etag: Schema.optionalKey(EntityTag)
})

export class ConfigurationApi extends HttpApiGroup.make("configuration")
  .add(
    HttpApiEndpoint.get("getByPath", "/by-path", {
      query: { ...application, path: NodePath },
      success: Tagged,
      error: ConfigurationNotFound
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Find a file or folder by its path",
          description: "A file comes with its content and its ETag. Names are compared exactly."
        })
      ),
    HttpApiEndpoint.get("deleted", "/deleted", {
      query: application,
      success: Schema.Array(DeletedConfiguration),
      error: ApplicationNotFound
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "List what can be restored",
          description: "Files and folders deleted within the last 30 days, the latest first, at most 1,000."
        })
      ),
    HttpApiEndpoint.get("get", "/:id", { params: id, success: Tagged, error: ConfigurationNotFound })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Get a file or folder",
          description: "A file comes with its content and its ETag."
        })
      ),
    HttpApiEndpoint.post("create", "/", {
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
    })
      .annotateMerge(write)
      .annotate(MaxBodyBytes, writeBodyBytes)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Create a file or folder",
          description: "A file begins with version 1. With `schemaId` its content is checked before it is stored."
        })
      ),
    HttpApiEndpoint.put("save", "/:id", {
      params: id,
      headers: ifMatch,
      payload: ConfigurationContent,
      success: Tagged,
      error: [
        ConfigurationManaged,
        ConfigurationNoFile,
        ConfigurationNotFound,
        PayloadTooLarge,
        ValidationFailed,
        VersionMismatch
      ]
    })
      .annotateMerge(write)
      .annotate(MaxBodyBytes, writeBodyBytes)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Save a file",
          description:
            "Adds a version, also where the content is the same. With If-Match it does so only from that version on."
        })
      ),
    HttpApiEndpoint.patch("move", "/:id", {
      params: id,
      headers: ifMatch,
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
        ValidationFailed,
        VersionMismatch
      ]
    })
      .annotateMerge(write)
      .annotate(MaxBodyBytes, writeBodyBytes)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Rename or move a file or folder",
          description: "Any of `name`, `parentId` (null is the root) and `schemaId` (null is none)."
        })
      ),
    HttpApiEndpoint.delete("delete", "/:id", {
      params: id,
      headers: ifMatch,
      success: HttpApiSchema.NoContent,
      error: [ConfigurationManaged, ConfigurationNotFound, ConfigurationSchemaInUse, VersionMismatch]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Delete a file or folder",
          description: "A folder with everything below it. For 30 days it can be restored; then it is gone for good."
        })
      ),
    HttpApiEndpoint.post("restore", "/:id/restore", {
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
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Restore what was deleted",
          description: "With everything that was deleted with it, where it stood; a node that is there stays as it is."
        })
      ),
    HttpApiEndpoint.get("versions", "/:id/versions", {
      params: id,
      query: {
        limit: Schema.optionalKey(integerParameter(ArrayLimit)),
        cursor: Schema.optionalKey(cursor(VersionNumber))
      },
      success: LinkedArray(ConfigurationVersion.json),
      error: [ConfigurationNotFound, ConfigurationNoFile]
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "List the versions of a file",
          description:
            "Newest first, 100 unless `limit` says otherwise; a page with more than 8 MiB of content is shorter."
        })
      ),
    HttpApiEndpoint.get("version", "/:id/versions/:version", {
      params: { ...id, version: integerParameter(VersionNumber) },
      success: ConfigurationVersion.json,
      error: [ConfigurationNotFound, ConfigurationNoFile, ConfigurationVersionNotFound]
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({ summary: "Get a version of a file", description: "One version with its content." })
      ),
    HttpApiEndpoint.get("diff", "/:id/diff", {
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
    })
      .annotateMerge(read)
      .annotate(AnswersIn, ["text/x-diff", "application/json"])
      .annotateMerge(
        OpenApi.annotations({
          summary: "Compare two versions of a file",
          description:
            "A unified diff, as JSON where Accept prefers it. `to` is the newest version unless given, `from` the one before it."
        })
      ),
    HttpApiEndpoint.post("rollback", "/:id/rollback", {
      params: id,
      headers: ifMatch,
      payload: Schema.Struct({ version: VersionNumber }),
      success: Tagged,
      error: [
        ConfigurationManaged,
        ConfigurationNoFile,
        ConfigurationNotFound,
        ConfigurationVersionNotFound,
        ValidationFailed,
        VersionMismatch
      ]
    })
      .annotateMerge(rollback)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Roll a file back",
          description: "Adds a version with the content of an earlier one; nothing of the history is lost."
        })
      ),
    HttpApiEndpoint.get("watch", "/:id/watch", {
      params: id,
      success: HttpApiSchema.StreamSse({
        events: Schema.Struct({
          id: Schema.optionalKey(Schema.String),
          event: Schema.Literal("version"),
          data: Schema.fromJsonString(ConfigurationEvent)
        })
      }),
      error: [ConfigurationNotFound, ConfigurationNoFile, TooManyWatchers]
    })
      .annotateMerge(read)
      .annotate(AnswersIn, ["text/event-stream"])
      .annotateMerge(
        OpenApi.annotations({
          summary: "Watch a file",
          description:
            "Server-Sent Events: `version` with the current version at once and with every newer one, whichever replica made it. A slow client is told of the newest. The stream ends when the file is deleted, the key loses its rights or the process ends; then connect again."
        })
      )
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/configuration")
  .annotateMerge(
    OpenApi.annotations({ title: "Configuration", description: "Version-controlled files of applications." })
  ) {}
