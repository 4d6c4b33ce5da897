import { Context, Metric } from "effect"

const registry = Context.empty()

/** A gauge of what this replica last found. */
const gauge = (id: string, description: string, attributes: Readonly<Record<string, string>> = {}) => {
  const made = Metric.gauge(id, { description, attributes })
  return (value: number): void => made.updateUnsafe(value, registry)
}

export const readySeen = gauge("app.ready", "Whether the replica is ready for requests: 1, or 0")
export const clockSeen = gauge("app.clock.offset", "By how much the replica's clock is ahead of the database's", {
  unit: "s"
})
export const chainSeen = gauge("app.audit.chain.waiting", "How long the next audit entry has waited for its link", {
  unit: "s"
})
export const deliveriesSeen = gauge("app.events.deliveries.waiting", "How long the first delivery has been due", {
  unit: "s"
})
export const failingTargetsSeen = gauge("app.events.targets.failing", "Webhooks and other targets that fail", {
  unit: "{target}"
})
export const foldingSeen = gauge("app.usage.folding.waiting", "How long usage has waited for its roll-ups", {
  unit: "s"
})
export const diskSeen = gauge("app.disk.free", "Free share of the disk of the replica, or of the embedded database", {
  unit: "1"
})

const severities = { Healthy: 0, Degraded: 1, Unhealthy: 2 }
const checks = new Map<string, (value: number) => void>()

/** Records what a check of the health in detail found. */
export const checkSeen = (check: string, status: keyof typeof severities): void => {
  let record = checks.get(check)
  if (record === undefined) {
    record = gauge("app.health.check", "What a check found: 0 healthy, 1 degraded, 2 unhealthy", { check })
    checks.set(check, record)
  }
  record(severities[status])
}
