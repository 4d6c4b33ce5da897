import { Option, Schema } from "effect"
import { servedName } from "../formats/served-domain.ts"
import { BillCount, type BillMeter, BillText, isBillMeter, readAmount, type Report } from "./domain.ts"

/**
 * The usage and cost reports of OpenAI's administration API: `/organization/costs` by line item, project and key, and
 * `/organization/usage/…` by model, project, key, batch and tier. Sources: the API reference "Usage" and the types of the
 * package `openai` (`resources/admin/organization/usage`); the texts of line items are documented nowhere, and are read as public
 * clients of the API report them ("gpt-5.5-2026-04-23, cached input", "priority | gpt-5.6, output, long context").
 */

const Named = Schema.optionalKey(Schema.NullOr(BillText))
const page = <Result extends Schema.Top>(result: Result) =>
  Schema.Struct({
    data: Schema.Array(Schema.Struct({ start_time: Schema.Int, results: Schema.Array(result) })),
    has_more: Schema.Boolean,
    next_page: Schema.optionalKey(Schema.NullOr(Schema.String))
  })

const CostsPage = page(
  Schema.Struct({
    // Empty days have results without an amount.
    amount: Schema.optionalKey(
      Schema.NullOr(
        Schema.Struct({ value: Schema.optionalKey(Schema.Unknown), currency: Schema.optionalKey(Schema.String) })
      )
    ),
    line_item: Named,
    project_id: Named,
    api_key_id: Named
  })
)

const Tokens = Schema.optionalKey(Schema.NullOr(BillCount))
const UsagePage = page(
  Schema.Struct({
    input_tokens: BillCount,
    output_tokens: Tokens,
    input_cached_tokens: Tokens,
    input_cache_write_tokens: Tokens,
    input_audio_tokens: Tokens,
    input_cached_audio_tokens: Tokens,
    output_audio_tokens: Tokens,
    num_model_requests: BillCount,
    project_id: Named,
    api_key_id: Named,
    model: Named,
    batch: Schema.optionalKey(Schema.NullOr(Schema.Boolean)),
    service_tier: Named
  })
)

/** What a line item begins with where it is not of the usual service. */
const tiers: ReadonlySet<string> = new Set(["batch", "flex", "priority", "fast", "scale", "ultrafast"])

/** What a text of a line item says. */
export const readLineItem = (
  item: string
): { readonly model: string; readonly tier: string; readonly meter: BillMeter } => {
  const [, prefix = "", rest = item] = /^([a-z -]{1,30}) \| (.+)$/i.exec(item) ?? []
  const isTier = tiers.has(prefix.toLowerCase())
  if (prefix !== "" && !isTier) return { model: "", tier: "", meter: "other" }
  const [, model = "", medium = "", kind = ""] =
    /^([^\s,]+)(?: (audio|image|text|video))?, (cached input|cache write|input|output)\b/i.exec(rest) ?? []
  const tier = isTier ? (servedName("tier", prefix) ?? "") : ""
  if (model === "") {
    // "whisper-1, audio" is of a model, and "web search tool calls" is not.
    const [, other = ""] = /^([^\s,]+), /.exec(rest) ?? []
    return { model: other, tier, meter: "other" }
  }
  const className = kind.toLowerCase().replace(" ", "-")
  const meter = medium === "" || medium.toLowerCase() === "text" ? className : `${medium.toLowerCase()}-${className}`
  return { model, tier, meter: isBillMeter(meter) ? meter : "other" }
}

const decodeCosts = Schema.decodeUnknownOption(CostsPage)
const decodeUsage = Schema.decodeUnknownOption(UsagePage)

const addCosts: Report["addPage"] = (body, sheet) => {
  const read = Option.getOrUndefined(decodeCosts(body))
  if (read === undefined) return "the costs have another form than is documented"
  for (const { results, start_time } of read.data) {
    const day = sheet.dayAt(start_time * 1000)
    if (day === undefined) return "it has a day that was not asked for"
    for (const { amount, api_key_id, line_item, project_id } of results) {
      if (amount?.value === undefined || amount.value === null) continue
      if (amount.currency?.toLowerCase() !== "usd") return "an amount is not in US dollars"
      const fine = readAmount(amount.value)
      if (typeof fine === "string") return fine
      const item = line_item ?? "unnamed"
      const place = { day, projectId: project_id ?? "", keyId: api_key_id ?? "", item, ...readLineItem(item) }
      const fault = sheet.add(place, { fine })
      if (fault !== undefined) return fault
    }
  }
  return { hasMore: read.has_more, next: read.next_page ?? null }
}

const addUsage: Report["addPage"] = (body, sheet) => {
  const read = Option.getOrUndefined(decodeUsage(body))
  if (read === undefined) return "the usage has another form than is documented"
  for (const { results, start_time } of read.data) {
    const day = sheet.dayAt(start_time * 1000)
    if (day === undefined) return "it has a day that was not asked for"
    for (const result of results) {
      const cached = result.input_cached_tokens ?? 0
      const written = result.input_cache_write_tokens ?? 0
      const [audio, cachedAudio] = [result.input_audio_tokens ?? 0, result.input_cached_audio_tokens ?? 0]
      const audioOutput = result.output_audio_tokens ?? 0
      const tier = result.batch === true ? "batch" : (servedName("tier", result.service_tier) ?? "")
      const place = {
        day,
        projectId: result.project_id ?? "",
        keyId: result.api_key_id ?? "",
        model: result.model ?? "",
        tier,
        item: ""
      }
      const classes: ReadonlyArray<readonly [BillMeter, number]> = [
        ["requests", result.num_model_requests],
        ["input", result.input_tokens - cached - written - audio],
        ["cached-input", cached - cachedAudio],
        ["cache-write", written],
        ["output", (result.output_tokens ?? 0) - audioOutput],
        ["audio-input", audio],
        ["audio-cached-input", cachedAudio],
        ["audio-output", audioOutput]
      ]
      for (const [meter, quantity] of classes) {
        if (quantity < 0) return "a class of tokens has more than all of them"
        const fault = quantity > 0 ? sheet.add({ ...place, meter }, { quantity }) : undefined
        if (fault !== undefined) return fault
      }
    }
  }
  return { hasMore: read.has_more, next: read.next_page ?? null }
}

/** The largest number of days on a page of usage. */
const daysOfPage = "31"

/** The reports of the days from `opens` to before `closes` (epoch milliseconds), of some projects or all. */
export const openAiReports = (
  opens: number,
  closes: number,
  projectIds: ReadonlyArray<string>,
  authorization: Readonly<Record<string, string>>
): ReadonlyArray<Report> => {
  const queryOf = (groupBy: ReadonlyArray<string>): string =>
    new URLSearchParams([
      ["start_time", String(opens / 1000)],
      ["end_time", String(closes / 1000)],
      ["bucket_width", "1d"],
      ["limit", daysOfPage],
      ...groupBy.map((name) => ["group_by[]", name]),
      ...projectIds.map((id) => ["project_ids[]", id])
    ]).toString()
  const usage = ["project_id", "api_key_id", "model"]
  return [
    {
      path: `/organization/costs?${queryOf(["project_id", "api_key_id", "line_item"])}`,
      headers: authorization,
      addPage: addCosts
    },
    {
      path: `/organization/usage/completions?${queryOf([...usage, "batch", "service_tier"])}`,
      headers: authorization,
      addPage: addUsage
    },
    { path: `/organization/usage/embeddings?${queryOf(usage)}`, headers: authorization, addPage: addUsage }
  ]
}
