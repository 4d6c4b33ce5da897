import { type ComponentType, useEffect, useState } from "react"
import { type IconName } from "../kit/icons.tsx"
import { Loading } from "../kit/states.tsx"

type Loaded = () => Promise<{ readonly default: ComponentType }>

/** A page: where it is, what it is called, and what it needs. */
export interface Route {
  readonly path: string
  readonly title: string
  readonly icon: IconName
  /** The capability that its content needs. */
  readonly needs: string | undefined
  /** The heading in the navigation; pages without one are reached from others. */
  readonly group: string | undefined
  readonly Page: ComponentType
  /** Loads the page's code before it is shown. */
  readonly load: () => Promise<unknown>
}

/** A page whose code is loaded when it is first shown; React's own `lazy` would leave its place empty for 300 ms at least. */
const lazily = (load: Loaded) => {
  let loaded: ComponentType | undefined
  const loadOnce = async () => (loaded ??= (await load()).default)
  const Page = () => {
    const [Shown, show] = useState(() => loaded)
    const [cause, fail] = useState<unknown>()
    useEffect(() => {
      loadOnce().then((page) => show(() => page), fail)
    }, [])
    if (cause !== undefined) throw cause
    return Shown === undefined ? <Loading rows={8} /> : <Shown />
  }
  return { load: loadOnce, Page }
}

const route = (
  group: string | undefined,
  path: string,
  title: string,
  icon: IconName,
  needs: string | undefined,
  load: Loaded
): Route => ({ group, path, title, icon, needs, ...lazily(load) })

/** Every page of the console, in the order of the navigation. */
export const routes: ReadonlyArray<Route> = [
  route("", "/", "Home", "home", undefined, () => import("../pages/system/home.tsx")),
  route("Money", "/caps", "Caps", "bars", "budgets:read", () => import("../pages/money/caps.tsx")),
  route(undefined, "/caps/:id", "Cap", "bars", "budgets:read", () => import("../pages/money/cap.tsx")),
  route("Money", "/approvals", "Approvals", "check", "budgets:approve", () => import("../pages/money/approvals.tsx")),
  route(
    "Money",
    "/reservations",
    "Reservations",
    "list",
    "spend:read",
    () => import("../pages/money/reservations.tsx")
  ),
  route("Money", "/plans", "Plans", "plan", "plans:read", () => import("../pages/money/plans.tsx")),
  route("Money", "/usage", "Usage", "chart", "insights:read", () => import("../pages/usage/usage.tsx")),
  route("Money", "/requests", "Requests", "pulse", "insights:read", () => import("../pages/usage/requests.tsx")),
  route("Money", "/anomalies", "Anomalies", "warning", "insights:read", () => import("../pages/usage/anomalies.tsx")),
  route("Money", "/billing", "Billing report", "file", "insights:read", () => import("../pages/usage/billing.tsx")),
  route(
    "Money",
    "/subscriptions",
    "Subscriptions",
    "card",
    "subscriptions:read",
    () => import("../pages/money/subscriptions.tsx")
  ),
  route(
    undefined,
    "/subscriptions/:id",
    "Subscription",
    "card",
    "subscriptions:read",
    () => import("../pages/money/subscription.tsx")
  ),
  route("Gateway", "/models", "Models", "grid", "llm:read", () => import("../pages/gateway/models.tsx")),
  route("Gateway", "/gateway", "Providers", "plug", "llm:read", () => import("../pages/gateway/gateway.tsx")),
  route("Gateway", "/try", "Try a model", "play", "llm:read", () => import("../pages/gateway/try.tsx")),
  route("Access", "/api-keys", "API keys", "key", "api-keys:read", () => import("../pages/access/api-keys.tsx")),
  route("Access", "/agents", "Agents", "agent", "agents:read", () => import("../pages/access/agents.tsx")),
  route(undefined, "/agents/:id", "Agent", "agent", "agents:read", () => import("../pages/access/agent/page.tsx")),
  route(
    "Access",
    "/trial-users",
    "Trial users",
    "people",
    "trial-users:read",
    () => import("../pages/access/trial-users.tsx")
  ),
  route(
    undefined,
    "/trial-users/:id",
    "Trial user",
    "people",
    "trial-users:read",
    () => import("../pages/access/trial-user.tsx")
  ),
  route("Access", "/sessions", "Sessions", "play", "sessions:read", () => import("../pages/access/sessions.tsx")),
  route("Access", "/roles", "Roles", "shield", "roles:read", () => import("../pages/access/roles/page.tsx")),
  route("Access", "/accounts", "Accounts", "person", "accounts:read", () => import("../pages/access/accounts.tsx")),
  route("Access", "/tenants", "Tenants", "building", "tenants:read", () => import("../pages/access/tenants.tsx")),
  route(
    "Access",
    "/identity-providers",
    "Identity providers",
    "plug",
    "identity-providers:read",
    () => import("../pages/access/identity-providers.tsx")
  ),
  route(
    "Configuration",
    "/applications",
    "Applications",
    "grid",
    "applications:read",
    () => import("../pages/configuration/applications.tsx")
  ),
  route(
    undefined,
    "/applications/:id",
    "Application",
    "grid",
    "applications:read",
    () => import("../pages/configuration/application.tsx")
  ),
  route(
    "Configuration",
    "/files",
    "Files",
    "file",
    "configuration:read",
    () => import("../pages/configuration/files/page.tsx")
  ),
  route(
    undefined,
    "/files/:id",
    "Files",
    "file",
    "configuration:read",
    () => import("../pages/configuration/files/page.tsx")
  ),
  route(
    "Configuration",
    "/integrations",
    "Integrations",
    "plug",
    "integrations:read",
    () => import("../pages/configuration/integrations.tsx")
  ),
  route(
    undefined,
    "/integrations/:id",
    "Integration",
    "plug",
    "integrations:read",
    () => import("../pages/configuration/integration.tsx")
  ),
  route(
    "Configuration",
    "/events",
    "Event subscriptions",
    "pulse",
    "events:read",
    () => import("../pages/configuration/events.tsx")
  ),
  route("Trust", "/audit", "Audit log", "list", "audit-logs:read", () => import("../pages/trust/audit.tsx")),
  route(
    undefined,
    "/audit/:id",
    "Audit entry",
    "list",
    "audit-logs:read",
    () => import("../pages/trust/audit-entry.tsx")
  ),
  route("Trust", "/security", "Security", "shield", "security:read", () => import("../pages/trust/security.tsx")),
  route(
    undefined,
    "/security/inventory",
    "Inventory",
    "shield",
    "security:read",
    () => import("../pages/trust/security-inventory.tsx")
  ),
  route(
    undefined,
    "/security/:id",
    "Security report",
    "shield",
    "security:read",
    () => import("../pages/trust/security-report.tsx")
  ),
  route(
    "Trust",
    "/attestation",
    "Attestation",
    "seal",
    "attestation:read",
    () => import("../pages/trust/attestation.tsx")
  ),
  route("Installation", "/settings", "Settings", "gear", "dashboard:read", () => import("../pages/system/settings.tsx"))
]
