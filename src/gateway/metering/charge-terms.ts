import { type Json } from "../../kernel/json/parsed-json.ts"
import { nanoUsdUp } from "../../kernel/usd.ts"
import {
  type ReportedCost,
  type Served,
  type TokenUsage,
  type UsageExtras,
  type UsageUnits
} from "../formats/domain.ts"
import { type WireFormat } from "../formats/format.ts"
import { type ProviderTools } from "../formats/provider-tools.ts"
import { servedName } from "../formats/served-domain.ts"
import { member } from "../formats/usage.ts"
import { ToolUseReader } from "./tool-uses.ts"

/** What is read of an answer besides its tokens. */
export interface ChargeTermsOptions {
  /** The tools of the request. */
  readonly tools: ProviderTools | undefined
  readonly format: Pick<WireFormat, "servedIn" | "unitsIn">
  readonly request?: Json
  readonly headers: Readonly<Record<string, string>>
  /** The path of the cost that the provider reports, if it is to. */
  readonly costPath: ReadonlyArray<string> | undefined
}

/** Reads what the charge of an answer depends on besides its tokens, of its events or of the whole. */
export class ChargeTerms {
  readonly tools: ToolUseReader
  private readonly options: ChargeTermsOptions
  private tier: unknown
  private speed: unknown
  private geo: unknown
  private costNanoUsd: bigint | undefined
  private units: UsageUnits | undefined

  constructor(options: ChargeTermsOptions) {
    this.options = options
    this.tools = new ToolUseReader(options.tools)
  }

  read(value: unknown): void {
    this.tools.read(value)
    const { costPath, format, headers, request = {} } = this.options
    const names = format.servedIn(value, headers)
    if (names !== undefined) {
      // The last is what the answer was served with; earlier ones may repeat what was asked for.
      this.tier = names.tier ?? this.tier
      this.speed = names.speed ?? this.speed
      this.geo = names.geo ?? this.geo
    }
    if (costPath !== undefined) this.cost(value, costPath)
    if (format.unitsIn !== undefined) this.units = format.unitsIn(value, request) ?? this.units
  }

  get extras(): UsageExtras {
    const { reportedCost: cost, served, units } = this
    const { uses } = this.tools
    return {
      ...(uses === undefined ? {} : { toolUses: uses }),
      ...(units === undefined ? {} : { units }),
      ...(served === undefined ? {} : { served }),
      ...(cost === undefined ? {} : { reportedCost: cost })
    }
  }

  /** A usage with what was read beside it. */
  complete(usage: TokenUsage): TokenUsage {
    const { reportedCost: cost, served, units } = this
    const { uses } = this.tools
    const isUsual = uses === undefined && units === undefined && served === undefined && cost === undefined
    return isUsual ? usage : { ...usage, ...this.extras }
  }

  private get served(): Served | undefined {
    const tier = servedName("tier", this.tier)
    const speed = servedName("speed", this.speed)
    const geo = servedName("geo", this.geo)
    if (tier === undefined && speed === undefined && geo === undefined) return undefined
    return {
      ...(tier === undefined ? {} : { tier }),
      ...(speed === undefined ? {} : { speed }),
      ...(geo === undefined ? {} : { geo })
    }
  }

  private get reportedCost(): ReportedCost | undefined {
    return this.options.costPath === undefined ? undefined : { nanoUsd: this.costNanoUsd }
  }

  /** The largest cost that is reported: a stream may report it as it grows. */
  private cost(value: unknown, path: ReadonlyArray<string>): void {
    for (const holder of [value, member(value, "response"), member(value, "message")]) {
      let container = holder
      for (const name of path.slice(0, -1)) container = member(container, name)
      const cost = member(container, path.at(-1) ?? "")
      if (cost === undefined) continue
      // With a key of one's own at OpenRouter, its vendor's bill comes besides.
      const upstream = member(member(container, "cost_details"), "upstream_inference_cost")
      const found = member(container, "is_byok") === true ? nanoUsdUp(cost, upstream) : nanoUsdUp(cost)
      if (found !== undefined && (this.costNanoUsd === undefined || found > this.costNanoUsd)) this.costNanoUsd = found
    }
  }
}
