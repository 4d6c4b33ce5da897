import { LRUCache } from "lru-cache"
import { type ModelTraits } from "../formats/traits-domain.ts"
import { type ModelFamily } from "./catalogue-domain.ts"

/** Callers choose the names of unlisted models. */
const maxRemembered = 10_000

/** Finds what is known of a vendor's model. */
export type TraitsOf = (vendor: string | undefined, model: string) => ModelTraits

interface Rule {
  readonly facts: Omit<ModelFamily, "provider" | "models" | "source" | "asOf">
  readonly provider: RegExp | undefined
  readonly model: RegExp
  readonly literals: number
  readonly providerLiterals: number
}

const literalsIn = (pattern: string): number => pattern.replaceAll(/[^a-z0-9]/g, "").length

const globs = (text: string): string => text.replaceAll("*", "[a-z0-9]*").replaceAll("?", "[a-z0-9]")

/**
 * The words of a pattern one after the other, anywhere in a name: `gpt-5` is in `openai/gpt-5.1-mini`, not in `gpt-50`.
 * After a slash they begin the name, or a part of it after a slash.
 */
const wordsIn = (pattern: string): RegExp => {
  const words = pattern.split(/[^a-z0-9*?]+/).filter((word) => word !== "")
  const start = pattern.startsWith("/") ? "(?:^|/)" : "(?:^|[^a-z0-9])"
  return new RegExp(`${start}${words.map(globs).join("[^a-z0-9]+")}(?:$|[^a-z0-9])`)
}

/** A whole name of a provider; `*` is any rest of it. */
const whole = (pattern: string): RegExp =>
  new RegExp(`^${pattern.replaceAll(/[.?+]/g, String.raw`\$&`).replaceAll("*", ".*")}$`)

/**
 * What the families of a catalogue say of models. Each fact is that of the family with the longest pattern that has it; of
 * equally long ones, that of a named provider, and then the last one.
 */
export const traitsByFamily = (families: ReadonlyArray<ModelFamily>): TraitsOf => {
  const rules = families
    .flatMap(({ asOf: _asOf, models, provider, source: _source, ...facts }) =>
      models.map((model): Rule => {
        const pattern = model.toLowerCase()
        return {
          facts,
          provider: provider === undefined || provider === "*" ? undefined : whole(provider),
          model: wordsIn(pattern),
          literals: literalsIn(pattern),
          providerLiterals: literalsIn(provider ?? "")
        }
      })
    )
    .toSorted((a, b) => a.literals - b.literals || a.providerLiterals - b.providerLiterals)
  const gathered = (vendor: string | undefined, model: string): ModelTraits => {
    const name = model.toLowerCase()
    const takes = new Set<string>()
    const refuses = new Set<string>()
    const known = {}
    for (const { facts, model: pattern, provider } of rules) {
      if ((provider !== undefined && !provider.test(vendor ?? "")) || !pattern.test(name)) continue
      Object.assign(known, facts)
      for (const member of facts.takes ?? []) if (takes.add(member)) refuses.delete(member)
      for (const member of facts.refuses ?? []) if (refuses.add(member)) takes.delete(member)
    }
    return { ...known, takes, refuses }
  }
  const remembered = new LRUCache<string, ModelTraits>({ max: maxRemembered })
  return (vendor, model) => {
    const key = `${vendor ?? ""}/${model}`
    let traits = remembered.get(key)
    if (traits === undefined) remembered.set(key, (traits = gathered(vendor, model)))
    return traits
  }
}
