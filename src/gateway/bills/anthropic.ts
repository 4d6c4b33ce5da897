import { Option, Schema } from "effect"
import { servedName } from "../formats/served-domain.ts"
import { BillCount, type BillMeter, type BillPlace, BillText, readAmount, type Report } from "./domain.ts"

/**
 * Anthropic's Usage and Cost Analytics API, in beta: `/v1/organizations/analytics/cost` and `…/usage`. Source: the types of the
 * package `@anthropic-ai/sdk` (`resources/beta/organization/analytics`). Where an account has none, the older reports that it
 * replaces, `/v1/organizations/cost_report` and `…/usage_report/messages`, which have no cost of a key and no count of requests.
 * Source: the reference of the Admin API. Amounts are text in cents.
 */
const beta = "analytics-usage-cost-2026-08-24"

const Named = Schema.NullOr(BillText)
const group = { api_key_id: Named, model: Named, service_tier: Named, speed: Named, workspace_id: Named }
const page = <Row extends Schema.Top>(row: Row) =>
  Schema.Struct({ data: Schema.Array(row), has_more: Schema.Boolean, next_page: Schema.NullOr(Schema.String) })

const CostPage = page(
  Schema.Struct({
    starting_at: Schema.String,
    group: Schema.Struct({ ...group, cost_type: Named, token_type: Named }),
    cost: Schema.Struct({ amount: Schema.String, list_amount: Schema.String, currency: Schema.String })
  })
)

const Tokens = {
  uncached_input_tokens: BillCount,
  cache_read_input_tokens: BillCount,
  cache_creation: Schema.Struct({ ephemeral_1h_input_tokens: BillCount, ephemeral_5m_input_tokens: BillCount }),
  output_tokens: BillCount
}

const UsagePage = page(
  Schema.Struct({
    starting_at: Schema.String,
    group: Schema.Struct(group),
    usage: Schema.Struct({ ...Tokens, requests: Schema.NullOr(BillCount) })
  })
)

const bucket = <Result extends Schema.Top>(result: Result) =>
  page(Schema.Struct({ starting_at: Schema.String, results: Schema.Array(result) }))
/** Null, or absent in reports that are not grouped by it. */
const NamedOnce = Schema.optionalKey(Named)

const OlderCostPage = bucket(
  Schema.Struct({
    amount: Schema.String,
    currency: Schema.String,
    cost_type: NamedOnce,
    description: NamedOnce,
    model: NamedOnce,
    service_tier: NamedOnce,
    token_type: NamedOnce,
    workspace_id: NamedOnce
  })
)

const OlderUsagePage = bucket(
  Schema.Struct({
    ...Tokens,
    api_key_id: NamedOnce,
    model: NamedOnce,
    service_tier: NamedOnce,
    workspace_id: NamedOnce
  })
)

const meters: Readonly<Record<string, BillMeter>> = {
  uncached_input_tokens: "input",
  cache_read_input_tokens: "cached-input",
  "cache_creation.ephemeral_5m_input_tokens": "cache-write",
  "cache_creation.ephemeral_1h_input_tokens": "cache-write-1h",
  output_tokens: "output"
}

const decodeCost = Schema.decodeUnknownOption(CostPage)
const decodeUsage = Schema.decodeUnknownOption(UsagePage)

type Group = { readonly [Name in keyof typeof group]: string | null }

const decodeOlderCost = Schema.decodeUnknownOption(OlderCostPage)
const decodeOlderUsage = Schema.decodeUnknownOption(OlderUsagePage)

/** How many tokens of each class a row has. */
const classesOf = (row: {
  readonly uncached_input_tokens: number
  readonly cache_read_input_tokens: number
  readonly cache_creation: { readonly ephemeral_1h_input_tokens: number; readonly ephemeral_5m_input_tokens: number }
  readonly output_tokens: number
}): ReadonlyArray<readonly [BillMeter, number]> => [
  ["input", row.uncached_input_tokens],
  ["cached-input", row.cache_read_input_tokens],
  ["cache-write", row.cache_creation.ephemeral_5m_input_tokens],
  ["cache-write-1h", row.cache_creation.ephemeral_1h_input_tokens],
  ["output", row.output_tokens]
]

const placeOf = (day: string, { api_key_id, model, service_tier, speed, workspace_id }: Group) => ({
  day,
  projectId: workspace_id ?? "",
  keyId: api_key_id ?? "",
  model: model ?? "",
  tier: servedName("speed", speed) ?? servedName("tier", service_tier) ?? ""
})

const cents = -2

const addCosts: Report["addPage"] = (body, sheet) => {
  const read = Option.getOrUndefined(decodeCost(body))
  if (read === undefined) return "the costs have another form than is documented"
  for (const { cost, group, starting_at } of read.data) {
    const day = sheet.dayAt(Date.parse(starting_at))
    if (day === undefined) return "it has a day that was not asked for"
    if (cost.currency !== "USD") return "an amount is not in US dollars"
    const fine = readAmount(cost.amount, cents)
    if (typeof fine === "string") return fine
    const listFine = readAmount(cost.list_amount, cents)
    if (typeof listFine === "string") return listFine
    const { cost_type, token_type } = group
    const place: BillPlace = {
      ...placeOf(day, group),
      meter: meters[token_type ?? ""] ?? "other",
      item: token_type ?? cost_type ?? "unnamed"
    }
    const fault = sheet.add(place, { fine, listFine })
    if (fault !== undefined) return fault
  }
  return { hasMore: read.has_more, next: read.next_page }
}

const addUsage: Report["addPage"] = (body, sheet) => {
  const read = Option.getOrUndefined(decodeUsage(body))
  if (read === undefined) return "the usage has another form than is documented"
  for (const { group, starting_at, usage } of read.data) {
    const day = sheet.dayAt(Date.parse(starting_at))
    if (day === undefined) return "it has a day that was not asked for"
    const place = { ...placeOf(day, group), item: "" }
    const classes: ReadonlyArray<readonly [BillMeter, number]> = [
      ["requests", usage.requests ?? 0],
      ...classesOf(usage)
    ]
    for (const [meter, quantity] of classes) {
      const fault = quantity > 0 ? sheet.add({ ...place, meter }, { quantity }) : undefined
      if (fault !== undefined) return fault
    }
  }
  return { hasMore: read.has_more, next: read.next_page }
}

const rowsOfPage = "1000"

/** The reports of the days from `opens` to before `closes` (epoch milliseconds), of some workspaces or all. */
export const anthropicReports = (
  opens: number,
  closes: number,
  workspaceIds: ReadonlyArray<string>,
  authorization: Readonly<Record<string, string>>
): ReadonlyArray<Report> => {
  const headers = { ...authorization, "anthropic-beta": beta }
  const queryOf = (groupBy: ReadonlyArray<string>): string =>
    new URLSearchParams([
      ["starting_at", new Date(opens).toISOString()],
      ["ending_at", new Date(closes).toISOString()],
      ["time_bucket_width", "1d"],
      ["order_by", "time"],
      ["order", "asc"],
      ["limit", rowsOfPage],
      ...groupBy.map((name) => ["group_by[]", name]),
      ...workspaceIds.map((id) => ["workspace_ids[]", id])
    ]).toString()
  const groups = Object.keys(group)
  return [
    {
      path: `/v1/organizations/analytics/cost?${queryOf([...groups, "cost_type", "token_type"])}`,
      headers,
      addPage: addCosts
    },
    { path: `/v1/organizations/analytics/usage?${queryOf(groups)}`, headers, addPage: addUsage }
  ]
}

/** The workspaces that are asked about; the older report of costs cannot be asked about some. */
const addOlderCosts =
  (workspaceIds: ReadonlyArray<string>): Report["addPage"] =>
  (body, sheet) => {
    const read = Option.getOrUndefined(decodeOlderCost(body))
    if (read === undefined) return "the costs have another form than is documented"
    for (const { results, starting_at } of read.data) {
      const day = sheet.dayAt(Date.parse(starting_at))
      if (day === undefined) return "it has a day that was not asked for"
      for (const {
        amount,
        cost_type,
        currency,
        description,
        model,
        service_tier,
        token_type,
        workspace_id
      } of results) {
        if (workspaceIds.length > 0 && !workspaceIds.includes(workspace_id ?? "")) continue
        if (currency !== "USD") return "an amount is not in US dollars"
        const fine = readAmount(amount, cents)
        if (typeof fine === "string") return fine
        const place: BillPlace = {
          day,
          projectId: workspace_id ?? "",
          keyId: "",
          model: model ?? "",
          tier: servedName("tier", service_tier) ?? "",
          meter: meters[token_type ?? ""] ?? "other",
          item: token_type ?? description ?? cost_type ?? "unnamed"
        }
        const fault = sheet.add(place, { fine })
        if (fault !== undefined) return fault
      }
    }
    return { hasMore: read.has_more, next: read.next_page }
  }

const addOlderUsage: Report["addPage"] = (body, sheet) => {
  const read = Option.getOrUndefined(decodeOlderUsage(body))
  if (read === undefined) return "the usage has another form than is documented"
  for (const { results, starting_at } of read.data) {
    const day = sheet.dayAt(Date.parse(starting_at))
    if (day === undefined) return "it has a day that was not asked for"
    for (const row of results) {
      const place = {
        day,
        projectId: row.workspace_id ?? "",
        keyId: row.api_key_id ?? "",
        model: row.model ?? "",
        tier: servedName("tier", row.service_tier) ?? "",
        item: ""
      }
      for (const [meter, quantity] of classesOf(row)) {
        const fault = quantity > 0 ? sheet.add({ ...place, meter }, { quantity }) : undefined
        if (fault !== undefined) return fault
      }
    }
  }
  return { hasMore: read.has_more, next: read.next_page }
}

const daysOfPage = "31"

/** The older reports of the same. */
export const olderAnthropicReports: typeof anthropicReports = (opens, closes, workspaceIds, headers) => {
  const queryOf = (groupBy: ReadonlyArray<string>, workspaces: ReadonlyArray<string>): string =>
    new URLSearchParams([
      ["starting_at", new Date(opens).toISOString()],
      ["ending_at", new Date(closes).toISOString()],
      ["bucket_width", "1d"],
      ["limit", daysOfPage],
      ...groupBy.map((name) => ["group_by[]", name]),
      ...workspaces.map((id) => ["workspace_ids[]", id])
    ]).toString()
  return [
    {
      path: `/v1/organizations/cost_report?${queryOf(["workspace_id", "description"], [])}`,
      headers,
      addPage: addOlderCosts(workspaceIds)
    },
    {
      path: `/v1/organizations/usage_report/messages?${queryOf(["api_key_id", "model", "service_tier", "workspace_id"], workspaceIds)}`,
      headers,
      addPage: addOlderUsage
    }
  ]
}
