import { HttpApi } from "effect/http-api"
import { Api } from "../api.ts"
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
