import { Effect } from "effect"
import * as http from "node:http"
import { type AddressInfo } from "node:net"

/** A cost of a day as OpenAI reports it; the amount is the text of a number. */
export interface OpenAiCost {
  readonly day: string
  readonly amount: string
  readonly item: string
  readonly key?: string | null
  readonly project?: string | null
  readonly currency?: string
}

/** Usage of a day as OpenAI reports it. */
export interface OpenAiUsage {
  readonly day: string
  readonly model: string
  readonly input: number
  readonly cached?: number
  readonly output: number
  readonly requests: number
  readonly key?: string | null
  readonly project?: string | null
  readonly batch?: boolean
  readonly tier?: string
}

/** A cost of a day as Anthropic reports it, in cents. */
export interface AnthropicCost {
  readonly day: string
  readonly cents: string
  readonly listCents?: string
  readonly model: string | null
  readonly tokenType: string | null
  readonly costType?: string
  readonly key?: string | null
  readonly workspace?: string | null
  readonly tier?: string
  readonly currency?: string
}

export interface AnthropicUsage {
  readonly day: string
  readonly model: string
  readonly input: number
  readonly cached?: number
  readonly written?: number
  readonly writtenFor1h?: number
  readonly output: number
  readonly requests: number
  readonly key?: string | null
  readonly workspace?: string | null
  readonly tier?: string
}

export interface VendorBills {
  /** Without `/v1`. */
  readonly url: string
  /** The paths with their queries, of requests that were as they must be. */
  readonly requests: Array<string>
  openAiCosts: ReadonlyArray<OpenAiCost>
  openAiUsage: ReadonlyArray<OpenAiUsage>
  anthropicCosts: ReadonlyArray<AnthropicCost>
  anthropicUsage: ReadonlyArray<AnthropicUsage>
  /** How many days, or rows, are on a page. */
  pageSize: number
  /** Answers in the place of the reports. */
  answer: ((url: URL, response: http.ServerResponse) => boolean) | undefined
}

export const openAiAdminKey = "sk-admin-test-of-some-length"
export const anthropicAdminKey = "sk-ant-admin01-test-of-some-length"

const dayMillis = 86_400_000

interface Refused {
  readonly status: number
  readonly message: string
}

/** Names of parameters that each report takes, by the vendors' references. */
const common = new Set([
  "start_time",
  "end_time",
  "bucket_width",
  "limit",
  "page",
  "group_by[]",
  "project_ids[]",
  "api_key_ids[]"
])
const openAiReports: Readonly<Record<string, { readonly groups: ReadonlyArray<string>; readonly mostDays: number }>> = {
  "/v1/organization/costs": { groups: ["project_id", "line_item", "api_key_id"], mostDays: 180 },
  "/v1/organization/usage/completions": {
    groups: ["project_id", "user_id", "api_key_id", "model", "batch", "service_tier"],
    mostDays: 31
  },
  "/v1/organization/usage/embeddings": { groups: ["project_id", "user_id", "api_key_id", "model"], mostDays: 31 }
}
const anthropicGroups = new Set([
  "api_key_id",
  "model",
  "service_tier",
  "speed",
  "workspace_id",
  "inference_geo",
  "context_window"
])

const refuse = (status: number, message: string): Refused => ({ status, message })

const openAiFault = (url: URL, { headers }: http.IncomingMessage): Refused | undefined => {
  const report = openAiReports[url.pathname]
  if (report === undefined) return refuse(404, "No such report")
  if (headers.authorization !== `Bearer ${openAiAdminKey}`) return refuse(401, "Not an admin key")
  const unknown = [...url.searchParams.keys()].find((name) => !common.has(name))
  if (unknown !== undefined) return refuse(400, `Unknown parameter ${unknown}`)
  const group = url.searchParams.getAll("group_by[]").find((name) => !report.groups.includes(name))
  if (group !== undefined) return refuse(400, `Unknown group ${group}`)
  if (!/^\d+$/.test(url.searchParams.get("start_time") ?? "")) return refuse(400, "start_time is missing")
  const limit = Number(url.searchParams.get("limit") ?? 7)
  return limit >= 1 && limit <= report.mostDays ? undefined : refuse(400, "limit is out of range")
}

/** The reports that those of the beta replace. */
const olderReports: Readonly<Record<string, ReadonlyArray<string>>> = {
  "/v1/organizations/cost_report": ["workspace_id", "description"],
  "/v1/organizations/usage_report/messages": ["api_key_id", "model", "service_tier", "workspace_id", "context_window"]
}
const isOlder = (url: URL): boolean => url.pathname in olderReports

const olderFault = (url: URL): Refused | undefined => {
  const group = url.searchParams
    .getAll("group_by[]")
    .find((name) => olderReports[url.pathname]?.includes(name) !== true)
  if (group !== undefined) return refuse(400, `Unknown group ${group}`)
  if (url.pathname.endsWith("/cost_report") && url.searchParams.has("workspace_ids[]"))
    return refuse(400, "workspace_ids")
  const limit = Number(url.searchParams.get("limit") ?? 7)
  return limit >= 1 && limit <= 31 ? undefined : refuse(400, "limit is out of range")
}

const anthropicFault = (url: URL, { headers }: http.IncomingMessage): Refused | undefined => {
  // The current client of the vendor sends the second.
  const isAdmin = headers["x-api-key"] === anthropicAdminKey || headers.authorization === `Bearer ${anthropicAdminKey}`
  if (!isAdmin) return refuse(401, "Not an admin key")
  if (!["2023-06-01", "2026-10-21"].includes(String(headers["anthropic-version"])))
    return refuse(400, "anthropic-version is missing")
  if (isOlder(url)) return olderFault(url)
  if (headers["anthropic-beta"] !== "analytics-usage-cost-2026-08-24") return refuse(400, "anthropic-beta is missing")
  const isCost = url.pathname.endsWith("/cost")
  const groups = url.searchParams.getAll("group_by[]")
  const counted = groups.filter((name) => name !== "cost_type" && name !== "token_type")
  if (!isCost && counted.length < groups.length) return refuse(400, "Usage has no types of cost")
  if (counted.length > 5 || counted.some((name) => !anthropicGroups.has(name))) return refuse(400, "group_by")
  const [from, to] = ["starting_at", "ending_at"].map((name) => Date.parse(url.searchParams.get(name) ?? ""))
  if (!(from! < to!) || to! - from! > 31 * dayMillis) return refuse(400, "The range is wrong")
  const limit = Number(url.searchParams.get("limit") ?? 20)
  return limit >= 1 && limit <= 1000 ? undefined : refuse(400, "limit is out of range")
}

const groupBy = (url: URL, values: Readonly<Record<string, string | boolean | null>>) => {
  const groups = url.searchParams.getAll("group_by[]")
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, groups.includes(name) ? value : null]))
}

const isChosen = (url: URL, name: string, value: string | null | undefined): boolean => {
  const chosen = url.searchParams.getAll(name)
  return chosen.length === 0 || chosen.includes(value ?? "")
}

const pageOf = (url: URL): number => Number(/^page_(\d+)$/.exec(url.searchParams.get("page") ?? "page_0")?.[1] ?? NaN)

/** Every day of a range has a bucket, also one without results. */
const openAiPage = (bills: VendorBills, url: URL): string => {
  const start = Number(url.searchParams.get("start_time")) * 1000
  const end = Number(url.searchParams.get("end_time")) * 1000
  const days = Array.from({ length: Math.round((end - start) / dayMillis) }, (_, index) => start + index * dayMillis)
  const page = pageOf(url)
  const size = Math.min(bills.pageSize, Number(url.searchParams.get("limit") ?? 7))
  const ofPage = days.slice(page * size, (page + 1) * size)
  const data = ofPage.map((at) => {
    const day = new Date(at).toISOString().slice(0, 10)
    const mine = (one: { readonly day: string; readonly project?: string | null }) =>
      one.day === day && isChosen(url, "project_ids[]", one.project)
    const results = url.pathname.endsWith("/costs")
      ? bills.openAiCosts.filter(mine).map(({ amount, currency = "usd", item, key = null, project = null }) => {
          const group = groupBy(url, { line_item: item, api_key_id: key, project_id: project })
          const members = JSON.stringify({ object: "organization.costs.result", ...group, quantity: 1 }).slice(1)
          return `{"amount":{"value":${amount},"currency":"${currency}"},${members}`
        })
      : bills.openAiUsage
          .filter((one) => mine(one) && url.pathname.endsWith("/embeddings") === one.model.includes("embedding"))
          .map(
            ({
              batch = false,
              cached = 0,
              input,
              key = null,
              model,
              output,
              project = null,
              requests,
              tier = "default"
            }) =>
              JSON.stringify({
                object: "organization.usage.completions.result",
                input_tokens: input,
                input_cached_tokens: cached,
                output_tokens: output,
                num_model_requests: requests,
                ...groupBy(url, { model, api_key_id: key, project_id: project, batch, service_tier: tier })
              })
          )
    return `{"object":"bucket","start_time":${at / 1000},"end_time":${(at + dayMillis) / 1000},"results":[${results.join(",")}]}`
  })
  const hasMore = (page + 1) * size < days.length
  return `{"object":"page","data":[${data.join(",")}],"has_more":${hasMore},"next_page":${hasMore ? `"page_${page + 1}"` : null}}`
}

const bounds = (day: string) => ({
  starting_at: `${day}T00:00:00Z`,
  ending_at: new Date(Date.parse(`${day}T00:00:00Z`) + dayMillis).toISOString()
})

const anthropicPage = (bills: VendorBills, url: URL): string => {
  const isCost = url.pathname.endsWith("/cost")
  const [from = "", to = ""] = ["starting_at", "ending_at"].map(
    (name) => url.searchParams.get(name)?.slice(0, 10) ?? ""
  )
  const mine = (one: { readonly day: string; readonly workspace?: string | null }) =>
    one.day >= from && one.day < to && isChosen(url, "workspace_ids[]", one.workspace)
  const others = { actor: null, actor_type: null, product: null, inference_geo: null, context_window: null }
  const rows = isCost
    ? bills.anthropicCosts.filter(mine).map((one) =>
        Object.assign(bounds(one.day), {
          group: {
            ...others,
            ...groupBy(url, {
              model: one.model,
              api_key_id: one.key ?? null,
              workspace_id: one.workspace ?? null,
              service_tier: one.tier ?? "standard",
              speed: "standard",
              cost_type: one.costType ?? "tokens",
              token_type: one.tokenType
            })
          },
          cost: {
            amount: one.cents,
            list_amount: one.listCents ?? one.cents,
            currency: one.currency ?? "USD",
            requests: null
          }
        })
      )
    : bills.anthropicUsage.filter(mine).map((one) =>
        Object.assign(bounds(one.day), {
          group: {
            ...others,
            ...groupBy(url, {
              model: one.model,
              api_key_id: one.key ?? null,
              workspace_id: one.workspace ?? null,
              service_tier: one.tier ?? "standard",
              speed: "standard"
            })
          },
          usage: {
            uncached_input_tokens: one.input,
            cache_read_input_tokens: one.cached ?? 0,
            cache_creation: {
              ephemeral_5m_input_tokens: one.written ?? 0,
              ephemeral_1h_input_tokens: one.writtenFor1h ?? 0
            },
            output_tokens: one.output,
            total_tokens: one.input + one.output,
            server_tool_use: { web_search_requests: 0 },
            requests: one.requests
          }
        })
      )
  const page = pageOf(url)
  const size = Math.min(bills.pageSize, Number(url.searchParams.get("limit") ?? 20))
  const hasMore = (page + 1) * size < rows.length
  return JSON.stringify({
    data: rows.slice(page * size, (page + 1) * size),
    has_more: hasMore,
    next_page: hasMore ? `page_${page + 1}` : null,
    data_refreshed_at: new Date().toISOString()
  })
}

/** Buckets of days, of which one without results is left out. */
const olderPage = (bills: VendorBills, url: URL): string => {
  const [from = "", to = ""] = ["starting_at", "ending_at"].map(
    (name) => url.searchParams.get(name)?.slice(0, 10) ?? ""
  )
  const isCost = url.pathname.endsWith("/cost_report")
  const isIn = (one: { readonly day: string; readonly workspace?: string | null }) =>
    one.day >= from && one.day < to && isChosen(url, "workspace_ids[]", one.workspace)
  const all: ReadonlyArray<AnthropicCost | AnthropicUsage> = isCost ? bills.anthropicCosts : bills.anthropicUsage
  const days = [...new Set(all.filter(isIn).map(({ day }) => day))].toSorted()
  const page = pageOf(url)
  const size = Math.min(bills.pageSize, Number(url.searchParams.get("limit") ?? 7))
  const data = days.slice(page * size, (page + 1) * size).map((day) => ({
    starting_at: `${day}T00:00:00Z`,
    ending_at: new Date(Date.parse(`${day}T00:00:00Z`) + dayMillis).toISOString(),
    results: isCost
      ? bills.anthropicCosts
          .filter((one) => one.day === day && isIn(one))
          .map(
            ({
              cents,
              costType = "tokens",
              currency = "USD",
              model,
              tier = "standard",
              tokenType,
              workspace = null
            }) => ({
              amount: cents,
              currency,
              cost_type: costType,
              description: `${model} ${tokenType}`,
              context_window: "0-200k",
              model,
              service_tier: tier,
              token_type: tokenType,
              workspace_id: workspace
            })
          )
      : bills.anthropicUsage
          .filter((one) => one.day === day && isIn(one))
          .map(
            ({
              cached = 0,
              input,
              key = null,
              model,
              output,
              tier = "standard",
              workspace = null,
              written = 0,
              writtenFor1h = 0
            }) =>
              Object.assign(groupBy(url, { api_key_id: key, model, service_tier: tier, workspace_id: workspace }), {
                uncached_input_tokens: input,
                cache_read_input_tokens: cached,
                cache_creation: { ephemeral_5m_input_tokens: written, ephemeral_1h_input_tokens: writtenFor1h },
                output_tokens: output,
                server_tool_use: { web_search_requests: 0 },
                context_window: null
              })
          )
  }))
  const hasMore = (page + 1) * size < days.length
  return JSON.stringify({ data, has_more: hasMore, next_page: hasMore ? `page_${page + 1}` : null })
}

/** The usage and cost reports of OpenAI and Anthropic, at one address, on a free loopback port until the scope closes. */
export const startVendorBills = Effect.acquireRelease(
  Effect.promise(async () => {
    const server = http.createServer((request, response) => {
      const url = new URL(request.url ?? "", "http://vendor")
      const isAnthropic = url.pathname.startsWith("/v1/organizations/")
      const fault =
        request.method !== "GET"
          ? refuse(405, "GET alone")
          : isAnthropic
            ? anthropicFault(url, request)
            : openAiFault(url, request)
      if (fault !== undefined) {
        // As vendors do, the key is repeated in the answer.
        const message = `${fault.message}: ${request.headers.authorization ?? request.headers["x-api-key"]}`
        response.writeHead(fault.status, { "content-type": "application/json" })
        response.end(JSON.stringify({ error: { message } }))
        return
      }
      bills.requests.push(`${url.pathname}${url.search}`)
      if (bills.answer?.(url, response) === true) return
      response.writeHead(200, { "content-type": "application/json" })
      const page = isOlder(url) ? olderPage : isAnthropic ? anthropicPage : openAiPage
      response.end(page(bills, url))
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const bills: VendorBills = {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      requests: [],
      openAiCosts: [],
      openAiUsage: [],
      anthropicCosts: [],
      anthropicUsage: [],
      pageSize: 31,
      answer: undefined
    }
    return { bills, server }
  }),
  ({ server }) =>
    Effect.promise(() => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(resolve))
    })
).pipe(Effect.map(({ bills }) => bills))
