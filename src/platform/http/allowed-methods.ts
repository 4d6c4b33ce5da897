import { Effect } from "effect"
import { FindMyWay, HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { MethodNotAllowed } from "../../kernel/problems/problems.ts"
import { Settings } from "../settings/settings.ts"
import { ServedApi } from "./served-api.ts"

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "QUERY", "TRACE"] as const
const pages = [
  "/",
  "/favicon.ico",
  "/openapi.json",
  "/swagger",
  "/swagger/index.html",
  "/swagger/v1/swagger.json",
  "/problems",
  "/problems/:slug",
  "/console/*",
  "/console/assets/:file"
]

/** How paths are found. An id is as long as the longest head that Node reads, so that each reaches its check. */
export const routerConfig = { caseSensitive: true, maxParamLength: 16_384 } as const

interface ServedPath {
  readonly path: HttpRouter.PathInput
  readonly segments: ReadonlyArray<string>
  /** Of paths that match a URL, the router takes the first in this order: fixed before parameter before wildcard. */
  readonly rank: string
  readonly methods: Set<string>
}

const rankOf = (segment: string) => (segment === "*" ? "2" : segment.includes(":") ? "1" : "0")

const servedPaths = (api: ServedApi["Service"], servesMetrics: boolean): ReadonlyArray<ServedPath> => {
  const served = new Map<string, ServedPath>()
  const add = (path: string, method: string) => {
    const known = served.get(path)
    if (known !== undefined) return known.methods.add(method)
    const segments = path.split("/")
    const rank = segments.map(rankOf).join("")
    return served.set(path, { path: path as HttpRouter.PathInput, segments, rank, methods: new Set([method]) })
  }
  for (const path of pages) add(path, "GET")
  if (servesMetrics) add("/metrics", "GET")
  for (const { endpoints } of Object.values(api.groups)) {
    for (const { method, path } of Object.values(endpoints)) add(path, method)
  }
  return [...served.values()].toSorted((one, other) => (one.rank < other.rank ? 1 : -1))
}

/** Whether a URL may match both paths. */
const overlap = ({ segments: some }: ServedPath, { segments: others }: ServedPath): boolean => {
  for (let index = 0; index < some.length; index++) {
    const one = some[index]!
    const other = others[index]
    if (one === "*" || other === "*") return true
    if (other === undefined || (one !== other && rankOf(one) === "0" && rankOf(other) === "0")) return false
  }
  return some.length === others.length
}

const notAllowed = (allow: string) =>
  HttpServerResponse.jsonUnsafe(
    { ...new MethodNotAllowed({ detail: `The path takes ${allow}.` }) },
    { status: 405, contentType: "application/problem+json", headers: { allow } }
  )

const answerOf = (served: ServedPath, method: string): HttpServerResponse.HttpServerResponse => {
  const allowed = served.methods
  const allow = [...allowed, ...(allowed.has("GET") ? ["HEAD"] : []), "OPTIONS"].join(", ")
  return method === "OPTIONS" ? HttpServerResponse.empty({ status: 204, headers: { allow } }) : notAllowed(allow)
}

/**
 * Answers 405 with `Allow` for the methods that a path does not have (RFC 9110 §15.5.6). The gateway's own paths answer it
 * in the format of each SDK. It is asked only when the router found nothing: a route for every such method would be three
 * quarters of all.
 */
export const makeAllowedMethods = Effect.gen(function* () {
  const router = yield* HttpRouter.HttpRouter
  const paths = FindMyWay.make<ServedPath>(routerConfig)
  const { telemetry } = yield* Settings
  const earlier: Array<{ readonly served: ServedPath; readonly routed: ReadonlySet<string> }> = []
  for (const served of servedPaths(yield* ServedApi, telemetry.prometheus.enabled)) {
    paths.on("", served.path, served)
    if (served.path.endsWith("/*")) paths.on("", served.path.slice(0, -2) as HttpRouter.PathInput, served)
    // For these the router would find another path, as `/agents/:id` for `/agents/me`.
    const others = earlier.filter((other) => other.served.rank > served.rank && overlap(served, other.served))
    const shadowed = methods.filter(
      (method) => !served.methods.has(method) && others.some(({ routed }) => routed.has(method))
    )
    yield* router.addAll(shadowed.map((method) => HttpRouter.route(method, served.path, answerOf(served, method))))
    earlier.push({ served, routed: new Set([...served.methods, ...shadowed]) })
  }

  return ({ method, url }: HttpServerRequest.HttpServerRequest) => {
    if (method !== "HEAD" && method !== "OPTIONS" && !methods.some((known) => known === method)) return undefined
    const found = paths.find("", url)
    if (found === undefined) return undefined
    const answer = answerOf(found.handler, method)
    return { answer, context: { params: found.params, route: HttpRouter.route("*", found.handler.path, answer) } }
  }
})
