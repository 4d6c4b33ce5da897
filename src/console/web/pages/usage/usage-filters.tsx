import { type Filter, useFilterQuery } from "../../kit/lists/filters.tsx"
import { shortId, useAgents, useApiKeys, useApplications } from "../../kit/names/names.tsx"
import { useTenants } from "../../kit/names/tenants.tsx"

/** What usage is filtered by and grouped by: the dimension, its filter in requests, and its name. */
export const dimensions = {
  model: ["model", "Model"],
  agent: ["agentId", "Agent"],
  "task-type": ["taskType", "Task type"],
  "api-key": ["apiKeyId", "API key"],
  application: ["applicationId", "Application"],
  user: ["userId", "User"],
  provider: ["provider", "Provider"],
  plan: ["planId", "Plan"],
  tenant: ["tenantId", "Tenant"]
} as const

export type Dimension = keyof typeof dimensions

/** The filters on usage: those that can be chosen from first, then those that links set. */
export const useUsageFilters = () => {
  const chosen = {
    tenantId: useTenants().tenants,
    agentId: useAgents(),
    apiKeyId: useApiKeys(),
    applicationId: useApplications()
  }
  const names = new Map<string, string>(Object.values(dimensions))
  const filters: ReadonlyArray<Filter> = [
    ...Object.entries(chosen).map(([key, options]) => ({
      key,
      label: names.get(key) ?? key,
      options,
      isHidden: options.length === 0
    })),
    ...Array.from(names, ([key, label]) => ({ key, label, nameOf: key === "planId" ? shortId : String })).filter(
      ({ key }) => !(key in chosen)
    )
  ]
  return { filters, ...useFilterQuery(filters) }
}
