import { TenantsHandlers } from "./handlers.ts"
import { Tenants } from "./service.ts"

/** Whose a thing is. */
export const layer = Tenants.layer

export const handlers = TenantsHandlers
