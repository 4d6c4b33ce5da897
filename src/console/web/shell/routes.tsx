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
  route("Access", "/api-keys", "API keys", "key", "api-keys:read", () => import("../pages/api-keys.tsx"))
]
