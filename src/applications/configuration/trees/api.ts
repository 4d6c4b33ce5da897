import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../../../kernel/authority/access.ts"
import { endpoint } from "../../../kernel/http/endpoint.ts"
import { booleanParameter, integerParameter } from "../../../kernel/http/parameter.ts"
import { PayloadTooLarge, ValidationFailed } from "../../../kernel/problems/problems.ts"
import { Idempotency } from "../../../platform/idempotency/api.ts"
import { ApplicationId, ApplicationNotFound } from "../../applications/domain.ts"
import {
  ConfigurationArchiveUnreadable,
  ConfigurationHistoryGone,
  ConfigurationManaged,
  ConfigurationNotPortable,
  ConfigurationTreeNode
} from "../model/domain.ts"
import {
  ConfigurationExport,
  ConfigurationImport,
  ConfigurationTreeChanges,
  ExportFormat,
  ImportMode,
  TreeRollback
} from "./domain.ts"

const read = requires("configuration:read", { systemOnly: true })
const write = requires("configuration:write", { systemOnly: true })
const rollback = requires("configuration:rollback", { systemOnly: true })
const importBodyBytes = 67_108_864
const zip = "application/zip"
const application = { applicationId: integerParameter(ApplicationId) }

export class ConfigurationTreesApi extends HttpApiGroup.make("configurationTrees")
  .add(
    endpoint.get("get", "/tree", {
      summary: "Get the tree of an application",
      description: "Every file and folder, each with those below it in the order of their names; without contents.",
      access: read,
      query: application,
      success: Schema.Array(ConfigurationTreeNode),
      error: ApplicationNotFound
    }),
    endpoint.get("export", "/export", {
      summary: "Export a tree",
      description:
        "Every file and folder as it is at this moment, as JSON or as a zip archive: by `format`, else by Accept, else JSON.",
      access: read,
      answersIn: ["application/json", zip],
      query: { ...application, format: Schema.optionalKey(ExportFormat) },
      success: [ConfigurationExport, HttpApiSchema.StreamUint8Array({ contentType: zip })],
      error: [ApplicationNotFound, ConfigurationNotPortable]
    }),
    endpoint.post("import", "/import", {
      summary: "Import a tree",
      description:
        "JSON or a zip archive, all of it in one transaction or nothing. `mode=merge` (the default) adds and changes, `mode=replace` also deletes what the archive lacks. A file whose content is the same gets no new version. With `dryRun=true` it only reports what would change.",
      access: write,
      maxBodyBytes: importBodyBytes,
      query: {
        ...application,
        mode: Schema.optionalKey(ImportMode),
        dryRun: Schema.optionalKey(booleanParameter)
      },
      payload: [ConfigurationImport, Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array({ contentType: zip }))],
      success: ConfigurationTreeChanges,
      error: [
        ApplicationNotFound,
        ConfigurationArchiveUnreadable,
        ConfigurationManaged,
        PayloadTooLarge,
        ValidationFailed
      ]
    }),
    endpoint.post("rollback", "/rollback", {
      summary: "Roll a tree back",
      description:
        "Restores every file and folder of an application to its state at a moment, in one transaction: contents as new versions, names, places and deletions. With `dryRun` it only reports what would change. Contents are not checked against schemas, which go back as well.",
      access: rollback,
      payload: TreeRollback,
      success: ConfigurationTreeChanges,
      error: [ApplicationNotFound, ConfigurationHistoryGone, ConfigurationManaged, ValidationFailed]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/configuration")
  .annotateMerge(
    OpenApi.annotations({
      title: "Configuration trees",
      description: "The configuration of an application as a whole."
    })
  ) {}
