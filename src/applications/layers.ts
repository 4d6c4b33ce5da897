import { Layer } from "effect"
import { ApplicationsHandlers } from "./applications/handlers.ts"
import { Applications } from "./applications/service.ts"
import { ConfigurationFiles } from "./configuration/files/files.ts"
import { ConfigurationHandlers } from "./configuration/files/handlers.ts"
import { Configuration } from "./configuration/files/service.ts"
import { ConfigurationWatch } from "./configuration/files/watch.ts"
import { ConfigurationSoftDelete } from "./configuration/soft-delete/service.ts"
import { ConfigurationArchives } from "./configuration/trees/archives.ts"
import { ConfigurationTreesHandlers } from "./configuration/trees/handlers.ts"
import { ConfigurationTrees } from "./configuration/trees/service.ts"
import { RolesHandlers } from "./roles/handlers.ts"
import { Roles } from "./roles/service.ts"

const ConfigurationServices = Layer.mergeAll(
  Configuration.layer,
  ConfigurationFiles.layer,
  ConfigurationTrees.layer,
  ConfigurationArchives.layer
).pipe(Layer.provideMerge(ConfigurationWatch.layer))

/** Applications, their roles and their configuration, which a deleted application takes along. */
export const layer = Layer.merge(ConfigurationServices, Roles.layer).pipe(
  Layer.provideMerge(Applications.layer),
  Layer.provideMerge(ConfigurationSoftDelete.layer)
)

export const handlers = Layer.mergeAll(
  ApplicationsHandlers,
  ConfigurationHandlers,
  ConfigurationTreesHandlers,
  RolesHandlers
)
