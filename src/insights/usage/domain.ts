/** What usage can be grouped by beside time and tenant, and filtered by: each is a column of a usage row. */
export const usageDimensions = [
  "agent",
  "model",
  "provider",
  "task-type",
  "application",
  "plan",
  "user",
  "api-key"
] as const
export type UsageDimension = (typeof usageDimensions)[number]
