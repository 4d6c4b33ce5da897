import { type ComponentType, lazy } from "react"
import { type IconName } from "../kit/icons.tsx"

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
}

type Loaded = () => Promise<{ readonly default: ComponentType }>

const route = (
  group: string | undefined,
  path: string,
  title: string,
  icon: IconName,
  needs: string | undefined,
  load: Loaded
): Route => ({ group, path, title, icon, needs, Page: lazy(load) })

/** Every page of the console, in the order of the navigation. */
export const routes: ReadonlyArray<Route> = [
  route("", "/", "Home", "home", "dashboard:read", () => import("../pages/home.tsx")),
  route("Money", "/caps", "Caps", "bars", "budgets:read", () => import("../pages/caps.tsx")),
  route(undefined, "/caps/:id", "Cap", "bars", "budgets:read", () => import("../pages/cap.tsx")),
  route("Money", "/approvals", "Approvals", "check", "budgets:approve", () => import("../pages/approvals.tsx")),
  route("Money", "/reservations", "Reservations", "list", "spend:read", () => import("../pages/reservations.tsx")),
  route("Money", "/plans", "Plans", "plan", "plans:read", () => import("../pages/plans.tsx")),
  route("Money", "/usage", "Usage", "chart", "insights:read", () => import("../pages/usage.tsx")),
  route("Money", "/requests", "Requests", "pulse", "insights:read", () => import("../pages/requests.tsx")),
  route("Money", "/anomalies", "Anomalies", "warning", "insights:read", () => import("../pages/anomalies.tsx")),
  route("Money", "/billing", "Billing report", "file", "insights:read", () => import("../pages/billing.tsx")),
  route(
    "Money",
    "/subscriptions",
    "Subscriptions",
    "card",
    "subscriptions:read",
    () => import("../pages/subscriptions.tsx")
  ),
  route(
    undefined,
    "/subscriptions/:id",
    "Subscription",
    "card",
    "subscriptions:read",
    () => import("../pages/subscription.tsx")
  ),
  route("Gateway", "/models", "Models", "grid", "llm:read", () => import("../pages/models.tsx")),
  route("Gateway", "/gateway", "Providers", "plug", "llm:read", () => import("../pages/gateway.tsx")),
  route("Gateway", "/try", "Try a model", "play", "llm:read", () => import("../pages/try.tsx")),
  route("Access", "/api-keys", "API keys", "key", "api-keys:read", () => import("../pages/api-keys.tsx")),
  route("Access", "/agents", "Agents", "agent", "agents:read", () => import("../pages/agents.tsx")),
  route(undefined, "/agents/:id", "Agent", "agent", "agents:read", () => import("../pages/agent.tsx")),
  route(
    "Access",
    "/trial-users",
    "Trial users",
    "people",
    "trial-users:read",
    () => import("../pages/trial-users.tsx")
  ),
  route(
    undefined,
    "/trial-users/:id",
    "Trial user",
    "people",
    "trial-users:read",
    () => import("../pages/trial-user.tsx")
  ),
  route("Access", "/sessions", "Sessions", "play", "sessions:read", () => import("../pages/sessions.tsx")),
  route("Access", "/roles", "Roles", "shield", "roles:read", () => import("../pages/roles.tsx")),
  route("Access", "/accounts", "Accounts", "person", "accounts:read", () => import("../pages/accounts.tsx")),
  route("Access", "/tenants", "Tenants", "building", "tenants:read", () => import("../pages/tenants.tsx")),
  route(
    "Access",
    "/identity-providers",
    "Identity providers",
    "plug",
    "identity-providers:read",
    () => import("../pages/identity-providers.tsx")
  ),
  route(
    "Configuration",
    "/applications",
    "Applications",
    "grid",
    "applications:read",
    () => import("../pages/applications.tsx")
  ),
  route(
    undefined,
    "/applications/:id",
    "Application",
    "grid",
    "applications:read",
    () => import("../pages/application.tsx")
  ),
  route("Configuration", "/files", "Files", "file", "configuration:read", () => import("../pages/files.tsx")),
  route(undefined, "/files/:id", "Files", "file", "configuration:read", () => import("../pages/files.tsx"))
]
