import { ApplicationsApi } from "./applications/api.ts"
import { ConfigurationApi } from "./configuration/files/api.ts"
import { ConfigurationTreesApi } from "./configuration/trees/api.ts"
import { RolesApi } from "./roles/api.ts"

export const groups = [ApplicationsApi, ConfigurationApi, ConfigurationTreesApi, RolesApi] as const
