import { Context } from "effect"
import { HttpApi } from "effect/http-api"
import { Api } from "../api.ts"
import { builtInApplications } from "../applications/applications/domain.ts"
import { builtInRoles } from "../applications/roles/domain.ts"
import { RequiredCapability } from "../kernel/authority/access.ts"
import { capabilitiesOf, resources } from "../kernel/authority/capability.ts"

/** Method and path of every operation of the API, by `group.endpoint`. */
export const routes = (): Readonly<Record<string, readonly [method: string, path: string]>> => {
  const found: Record<string, readonly [string, string]> = {}
  HttpApi.reflect(Api, {
    onGroup: () => undefined,
    onEndpoint: ({ endpoint, group }) => {
      found[`${group.identifier}.${endpoint.identifier}`] = [endpoint.method, endpoint.path]
    }
  })
  return found
}

/** The actions of each resource that capabilities are about. */
export const capabilities = (): Readonly<Record<string, ReadonlyArray<string>>> =>
  Object.fromEntries(
    resources.map((resource) => [
      resource,
      capabilitiesOf(resource).map((capability) => capability.slice(resource.length + 1))
    ])
  )

/** The capabilities that every operation refuses to a caller of one tenant. */
export const installationOnly = (): ReadonlyArray<string> => {
  const only = new Map<string, boolean>()
  HttpApi.reflect(Api, {
    onGroup: () => undefined,
    onEndpoint: ({ endpoint }) => {
      const { capability, systemOnly } = Context.getOrUndefined(endpoint.annotations, RequiredCapability) ?? {}
      if (capability != null) only.set(capability, systemOnly === true && only.get(capability) !== false)
    }
  })
  return Array.from(only)
    .filter(([, isOnly]) => isOnly)
    .map(([capability]) => capability)
}

/** What every installation has and keeps: the slugs of applications, and the names of roles of the first of them. */
export const builtIn = () => ({
  applications: builtInApplications.map(({ slug }) => slug),
  roles: builtInRoles.map(({ name }) => name)
})
