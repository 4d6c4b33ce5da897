import { type ComponentType, useEffect, useState } from "react"
import { Failure } from "../api/client.ts"
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
  /** Whether it is about the whole installation, whatever the capability. */
  readonly isOfInstallation?: boolean
  /** The heading in the navigation; pages without one are reached from others. */
  readonly group: string | undefined
  readonly Page: ComponentType
  /** Loads the page's code before it is shown. */
  readonly load: () => Promise<unknown>
}

/** Browsers try no module a second time, so that the page has to be loaded again. */
const unloaded = new Failure(0, {
  title: "This page could not be loaded",
  detail: "Check the connection and try again. After an update of the service, reload the page."
})

/** A page whose code is loaded when it is first shown; React's own `lazy` would leave its place empty for 300 ms at least. */
const makeLazy = (load: Loaded) => {
  let loaded: ComponentType | undefined
  const loadOnce = async () => (loaded ??= (await load()).default)
  const Page = () => {
    const [Shown, show] = useState(() => loaded)
    const [cause, fail] = useState<unknown>()
    useEffect(() => {
      loadOnce().then(
        (page) => show(() => page),
        () => fail(unloaded)
      )
    }, [])
    if (cause !== undefined) throw cause
    return Shown === undefined ? <Loading rows={8} /> : <Shown />
  }
  return { load: loadOnce, Page }
}

const made = new Map<Loaded, ReturnType<typeof makeLazy>>()
/** The same page at several addresses is loaded once. */
const lazily = (load: Loaded) => {
  const page = made.get(load) ?? makeLazy(load)
  made.set(load, page)
  return page
}

const requests = () => import("../pages/usage/requests.tsx")

type Page = Omit<Route, "group">
type Part = Pick<Route, "load" | "Page" | "path" | "title">

/** A page of the navigation. */
const page = (path: string, title: string, icon: IconName, needs: string | undefined, load: Loaded): Page => ({
  path,
  title,
  icon,
  needs,
  ...lazily(load)
})

const ofInstallation = (page: Page): Page => ({ ...page, isOfInstallation: true })

/** A page that is reached from the one above it in the path, and needs the same. */
const part = (path: string, title: string, load: Loaded): Part => ({ path, title, ...lazily(load) })

/** Every page of the console by its heading, in the order of the navigation. */
const navigation: Readonly<Record<string, ReadonlyArray<Page | Part>>> = {
  "": [page("/", "Home", "home", undefined, () => import("../pages/system/home.tsx"))],
  Money: [
    page("/caps", "Caps", "bars", "budgets:read", () => import("../pages/money/caps.tsx")),
    part("/caps/:id", "Cap", () => import("../pages/money/cap.tsx")),
    page("/approvals", "Approvals", "check", "budgets:approve", () => import("../pages/money/approvals.tsx")),
    page("/reservations", "Reservations", "hourglass", "spend:read", () => import("../pages/money/reservations.tsx")),
    page("/plans", "Plans", "plan", "plans:read", () => import("../pages/money/plans.tsx")),
    page("/usage", "Usage", "chart", "insights:read", () => import("../pages/usage/usage.tsx")),
    page("/requests", "Requests", "pulse", "insights:read", requests),
    part("/requests/:id", "Request", requests),
    page("/anomalies", "Anomalies", "warning", "insights:read", () => import("../pages/usage/anomalies.tsx")),
    page("/billing", "Billing report", "receipt", "insights:read", () => import("../pages/usage/billing.tsx")),
    ofInstallation(
      page(
        "/reconciliation",
        "Provider bills",
        "scales",
        "insights:read",
        () => import("../pages/usage/reconciliation.tsx")
      )
    ),
    page(
      "/subscriptions",
      "Provider subscriptions",
      "card",
      "subscriptions:read",
      () => import("../pages/money/subscriptions.tsx")
    ),
    part("/subscriptions/:id", "Subscription", () => import("../pages/money/subscription.tsx"))
  ],
  Gateway: [
    page("/models", "Models", "cube", "llm:read", () => import("../pages/gateway/models.tsx")),
    page("/gateway", "Providers", "server", "llm:read", () => import("../pages/gateway/gateway.tsx")),
    page("/try", "Try a model", "play", "llm:read", () => import("../pages/gateway/try.tsx"))
  ],
  Access: [
    page("/api-keys", "API keys", "key", "api-keys:read", () => import("../pages/access/api-keys.tsx")),
    part("/api-keys/:id", "API key", () => import("../pages/access/api-key.tsx")),
    page("/agents", "Agents", "agent", "agents:read", () => import("../pages/access/agents.tsx")),
    part("/agents/:id", "Agent", () => import("../pages/access/agent/page.tsx")),
    page("/trial-users", "Trial users", "people", "trial-users:read", () => import("../pages/access/trial-users.tsx")),
    part("/trial-users/:id", "Trial user", () => import("../pages/access/trial-user.tsx")),
    page("/sessions", "Trial sessions", "clock", "sessions:read", () => import("../pages/access/sessions.tsx")),
    page("/roles", "Roles", "shield", "roles:read", () => import("../pages/access/roles/page.tsx")),
    page("/accounts", "Accounts", "person", "accounts:read", () => import("../pages/access/accounts.tsx")),
    page("/tenants", "Tenants", "building", "tenants:read", () => import("../pages/access/tenants.tsx")),
    part("/tenants/:id", "Tenant", () => import("../pages/access/tenant.tsx")),
    page(
      "/identity-providers",
      "Identity providers",
      "identity",
      "identity-providers:read",
      () => import("../pages/access/identity-providers.tsx")
    )
  ],
  Configuration: [
    page(
      "/applications",
      "Applications",
      "grid",
      "applications:read",
      () => import("../pages/configuration/applications.tsx")
    ),
    part("/applications/:id", "Application", () => import("../pages/configuration/application.tsx")),
    page("/files", "Files", "folder", "configuration:read", () => import("../pages/configuration/files/page.tsx")),
    part("/files/:id", "Files", () => import("../pages/configuration/files/page.tsx")),
    page(
      "/integrations",
      "Integrations",
      "plug",
      "integrations:read",
      () => import("../pages/configuration/integrations.tsx")
    ),
    part("/integrations/:id", "Integration", () => import("../pages/configuration/integration.tsx")),
    page("/events", "Event subscriptions", "bell", "events:read", () => import("../pages/configuration/events.tsx"))
  ],
  Trust: [
    page("/audit", "Audit log", "book", "audit-logs:read", () => import("../pages/trust/audit.tsx")),
    part("/audit/:id", "Audit entry", () => import("../pages/trust/audit-entry.tsx")),
    page("/security", "Security", "lock", "security:read", () => import("../pages/trust/security.tsx")),
    part("/security/inventory", "Inventory", () => import("../pages/trust/security-inventory.tsx")),
    part("/security/:id", "Security report", () => import("../pages/trust/security-report.tsx")),
    page("/attestation", "Attestation", "seal", "attestation:read", () => import("../pages/trust/attestation.tsx"))
  ],
  Installation: [page("/settings", "Settings", "gear", "dashboard:read", () => import("../pages/system/settings.tsx"))]
}

/** The page of one's own account, which the menu of the account leads to. */
const own = page("/account", "Your account", "exit", undefined, () => import("../pages/access/account.tsx"))

export const routes: ReadonlyArray<Route> = Object.entries(navigation)
  .flatMap(([group, pages]) =>
    pages.map((one): Route => {
      if ("icon" in one) return { ...one, group }
      const above = pages.find(({ path }) => one.path.startsWith(`${path}/`)) as Page
      return { ...above, ...one, group: undefined }
    })
  )
  .concat({ ...own, group: undefined })
