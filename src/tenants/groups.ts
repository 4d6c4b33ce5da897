import { TenantsApi } from "./api.ts"

export const groups = [TenantsApi] as const
