import { useCall } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { short } from "../../kit/format.tsx"
import { choicesOf, type Options } from "../../kit/forms/form.tsx"
import { type Filter, useFilterQuery } from "../../kit/lists/filters.tsx"
import { lastDays } from "../../kit/lists/range.tsx"
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

/** What an item of a report is called: the name of what its key identifies, and "none" for what has none. */
export const nameOfItem = ({ key, label }: Pick<Row<"insights.by">, "key" | "label">): string =>
  key === null ? "none" : (label ?? (key.length === 36 ? shortId(key) : key))

const most = 200

/** The names that had usage lately, the dearest first. */
const useUsed = (dimension: "model" | "provider" | "task-type"): ReadonlyArray<string> =>
  useCall("insights.by", { params: { dimension }, query: { ...lastDays(), limit: most } }).data?.items.flatMap(
    ({ key }) => key ?? []
  ) ?? []

/** The filters on usage: those that are used the most, more of a page, and those that are shown once they are added or set. */
export const useUsageFilters = (more: ReadonlyArray<Filter> = []) => {
  const options: Partial<Record<Dimension, Options>> = {
    tenant: useTenants().tenants,
    agent: useAgents(),
    model: useUsed("model"),
    "api-key": useApiKeys(),
    application: useApplications(),
    provider: useUsed("provider"),
    "task-type": useUsed("task-type")
  }
  const filterOf = (dimension: Dimension, isExtra: boolean): Filter => {
    const [key, label] = dimensions[dimension]
    const given = options[dimension]
    return {
      key,
      label,
      options: given,
      isExtra,
      isHidden: given !== undefined && choicesOf(given).length === 0,
      nameOf: key.endsWith("Id") ? short : String
    }
  }
  const filters: ReadonlyArray<Filter> = [
    ...(["tenant", "agent", "model"] as const).map((dimension) => filterOf(dimension, false)),
    ...more,
    ...(["provider", "task-type", "api-key", "application", "user", "plan"] as const).map((dimension) =>
      filterOf(dimension, options[dimension] !== undefined)
    )
  ]
  return { filters, ...useFilterQuery(filters) }
}
