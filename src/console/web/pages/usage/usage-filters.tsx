import { Choice, useFilters } from "../../kit/lists/filters.tsx"
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

/** The filters on usage that are in the URL. */
export const useUsageFilters = () => useFilters(Object.values(dimensions).map(([filter]) => filter))

type UsageFilters = ReturnType<typeof useUsageFilters>

/** Chooses what can be chosen from, and shows the other filters that are set. */
export const UsageFilterChoices = ({ set, values }: UsageFilters) => {
  const agents = useAgents()
  const applications = useApplications()
  const keys = useApiKeys()
  const { tenants } = useTenants()
  const chosen = { agentId: agents, applicationId: applications, apiKeyId: keys, tenantId: tenants } as const
  const rest = Object.values(dimensions).filter(([filter]) => !(filter in chosen))
  return (
    <>
      {(["tenantId", "agentId", "apiKeyId", "applicationId"] as const).map((filter) => {
        const [, name] = Object.values(dimensions).find(([known]) => known === filter)!
        return chosen[filter].length === 0 ? null : (
          <Choice
            key={filter}
            label={name}
            value={values[filter]}
            options={chosen[filter]}
            onChange={(value) => set(filter, value)}
          />
        )
      })}
      {rest.map(([filter, name]) => {
        const value = values[filter]
        return value === undefined ? null : (
          <span key={filter} className="pill on">
            {name}: {filter === "planId" ? shortId(value) : value}
            <button type="button" aria-label={`Remove the filter on ${name}`} onClick={() => set(filter, "")}>
              ×
            </button>
          </span>
        )
      })}
    </>
  )
}
