import { Schema } from "effect"
import { Problem } from "../../../kernel/problem.ts"

export class ConfigurationNotFound extends Problem<ConfigurationNotFound>()("ConfigurationNotFound", {
  slug: "configuration-not-found",
  status: 404,
  meaning: "No file or folder has this id or path, or it is deleted."
}) {}

export class ConfigurationVersionNotFound extends Problem<ConfigurationVersionNotFound>()(
  "ConfigurationVersionNotFound",
  { slug: "configuration-version-not-found", status: 404, meaning: "The file has no version of this number." }
) {}

export class ConfigurationManaged extends Problem<ConfigurationManaged>()("ConfigurationManaged", {
  slug: "configuration-managed",
  status: 403,
  meaning: "The configuration of a built-in application is changed through its own endpoints only."
}) {}

export class ConfigurationNameTaken extends Problem<ConfigurationNameTaken>()("ConfigurationNameTaken", {
  slug: "configuration-name-taken",
  status: 409,
  meaning: "The folder already contains a file or folder of this name."
}) {}

export class ConfigurationNoFile extends Problem<ConfigurationNoFile>()("ConfigurationNoFile", {
  slug: "configuration-no-file",
  status: 400,
  meaning: "This is a folder, which has no content and no versions."
}) {}

export class ConfigurationParentUnfit extends Problem<ConfigurationParentUnfit>()("ConfigurationParentUnfit", {
  slug: "configuration-parent-unfit",
  status: 409,
  meaning: "The parent must be a folder of the same application that is not deleted."
}) {}

export class ConfigurationCycle extends Problem<ConfigurationCycle>()("ConfigurationCycle", {
  slug: "configuration-cycle",
  status: 409,
  meaning: "A folder cannot be moved into itself or below itself."
}) {}

export class ConfigurationTooDeep extends Problem<ConfigurationTooDeep>()("ConfigurationTooDeep", {
  slug: "configuration-too-deep",
  status: 409,
  meaning: "A tree is at most 64 names deep."
}) {}

export class ConfigurationSchemaUnfit extends Problem<ConfigurationSchemaUnfit>()("ConfigurationSchemaUnfit", {
  slug: "configuration-schema-unfit",
  status: 409,
  meaning: "A schema must be another file of the same application that is not deleted, and only files have one."
}) {}

export class ConfigurationSchemaInUse extends Problem<ConfigurationSchemaInUse>()("ConfigurationSchemaInUse", {
  slug: "configuration-schema-in-use",
  status: 409,
  meaning: "Files that stay are checked against this schema, so it is not deleted."
}) {}

export class ConfigurationHistoryGone extends Problem<ConfigurationHistoryGone>()(
  "ConfigurationHistoryGone",
  {
    slug: "configuration-history-gone",
    status: 409,
    meaning:
      "Nodes that the tree had then were deleted more than 30 days ago and are gone for good; `names` lists them."
  },
  { names: Schema.Array(Schema.String) }
) {}

export class ConfigurationArchiveUnreadable extends Problem<ConfigurationArchiveUnreadable>()(
  "ConfigurationArchiveUnreadable",
  { slug: "configuration-archive-unreadable", status: 400, meaning: "The body is no zip archive that can be read." }
) {}

export class ConfigurationNotPortable extends Problem<ConfigurationNotPortable>()(
  "ConfigurationNotPortable",
  {
    slug: "configuration-not-portable",
    status: 409,
    meaning: "A zip archive cannot contain paths of the tree; export it as JSON."
  },
  { paths: Schema.Array(Schema.String) }
) {}

export class TooManyWatchers extends Problem<TooManyWatchers>()(
  "TooManyWatchers",
  {
    slug: "too-many-watchers",
    status: 503,
    meaning: "The limit of clients that watch configuration is reached."
  },
  { retryAfterSeconds: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 3600 }))) }
) {}
