import * as fs from "node:fs"
import * as path from "node:path"

type Conditions = ReadonlyArray<Readonly<Record<string, null | "*" | ReadonlyArray<string>>>>

interface Definition {
  readonly level: "mandatory" | "conditional" | "recommended"
  readonly type: "String" | "Decimal" | "Date/Time" | "JSON"
  readonly nulls: boolean
  readonly format?: string
  readonly allowed?: ReadonlyArray<string> | Readonly<Record<string, ReadonlyArray<string>>>
  readonly min?: number
  readonly nullWhen?: Conditions
  readonly valueWhen?: Conditions
}

interface Specification {
  readonly formats: Readonly<Record<"datetime" | "numeric" | "currency", { readonly regex: string }>>
  readonly "this product": { readonly conditionalThatApply: ReadonlyArray<string> }
  readonly "1.2": Readonly<Record<string, Definition>>
  readonly "1.4": Readonly<Record<string, Definition>>
}

const specification = JSON.parse(
  fs.readFileSync(path.join(import.meta.dirname, "focus-columns.json"), "utf8")
) as Specification

/** A row by column; null is an empty field without quotes. */
export type FocusRow = Readonly<Record<string, string | null>>

/** The header and the rows of a CSV (RFC 4180). */
export const parseCsv = (
  text: string
): { readonly header: ReadonlyArray<string>; readonly rows: ReadonlyArray<FocusRow> } => {
  const lines: Array<Array<string | null>> = [[]]
  const field = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r\n|$)/gy
  while (field.lastIndex < text.length) {
    const match = field.exec(text)
    if (match === null) throw new Error(`No CSV at ${field.lastIndex}`)
    const [, cell = "", end] = match
    const value = cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell === "" ? null : cell
    lines.at(-1)?.push(value)
    if (end === "\r\n") lines.push([])
  }
  if (lines.at(-1)?.length === 0) lines.pop()
  const [first = [], ...rest] = lines
  const header = first.map(String)
  return {
    header,
    rows: rest.map((cells) => {
      if (cells.length !== header.length) throw new Error(`${cells.length} fields below ${header.length} columns`)
      return Object.fromEntries(header.map((id, index) => [id, cells[index] ?? null]))
    })
  }
}

/** A decimal as an integer of 10^-30, so that products and sums are exact. */
const exact = (text: string): bigint => {
  const [whole = "0", fraction = ""] = text.replace("-", "").split(".")
  const value = BigInt(whole + fraction.padEnd(30, "0"))
  return text.startsWith("-") ? -value : value
}
const unit = 10n ** 30n

const holds = (row: FocusRow, condition: Conditions[number]): boolean =>
  Object.entries(condition).every(([id, expected]) => {
    const value = row[id] ?? null
    // A column that is absent is null for conditions on its value, and no condition that it is null applies.
    if (expected === null) return id in row && value === null
    if (expected === "*") return value !== null
    return expected.some((one) => (one.startsWith("!") ? value !== one.slice(1) : value === one))
  })

const isOf = (definition: Definition, value: string): boolean => {
  const { datetime, numeric } = specification.formats
  switch (definition.type) {
    case "Date/Time":
      return new RegExp(datetime.regex).test(value)
    case "Decimal":
      return new RegExp(numeric.regex).test(value) && (definition.min === undefined || Number(value) >= definition.min)
    case "JSON": {
      const parsed: unknown = JSON.parse(value)
      return (
        typeof parsed === "object" &&
        parsed !== null &&
        !Array.isArray(parsed) &&
        Object.values(parsed).every((one) => typeof one !== "object" || one === null)
      )
    }
    case "String":
      return definition.format === "currency"
        ? new RegExp(specification.formats.currency.regex).test(value)
        : value !== ""
  }
}

/** What a file breaks of the rules of a version; the chosen columns decide which have to be there. */
export const focusFaults = (version: "1.2" | "1.4", text: string): ReadonlyArray<string> => {
  const definitions = specification[version]
  const { header, rows } = parseCsv(text)
  const faults: Array<string> = []
  const own = header.filter((id) => id.startsWith("x_"))
  const standard = header.filter((id) => !id.startsWith("x_"))
  const required = Object.entries(definitions)
    .filter(
      ([id, { level }]) => level === "mandatory" || specification["this product"].conditionalThatApply.includes(id)
    )
    .map(([id]) => id)
  for (const id of required) if (!header.includes(id)) faults.push(`${id} is missing`)
  for (const id of standard) if (!(id in definitions)) faults.push(`${id} is no column of ${version}`)
  for (const id of own) if (!/^x_[A-Z][A-Za-z0-9]{0,47}$/.test(id)) faults.push(`${id} is no name of an own column`)
  if (header.join() !== [...standard.toSorted(), ...own.toSorted()].join()) faults.push("the columns are not in order")

  const parents = new Map<string, string>()
  for (const [index, row] of rows.entries()) {
    const fault = (what: string) => void faults.push(`row ${index + 1}: ${what}`)
    for (const id of standard) {
      const definition = definitions[id]
      if (definition === undefined) continue
      const value = row[id] ?? null
      if (value === null) {
        if (!definition.nulls) fault(`${id} is null`)
        const isNull = definition.nullWhen?.some((condition) => holds(row, condition)) ?? false
        if (!isNull && definition.valueWhen?.some((condition) => holds(row, condition))) fault(`${id} has no value`)
        continue
      }
      if (definition.nullWhen?.some((condition) => holds(row, condition))) fault(`${id} has a value`)
      if (!isOf(definition, value)) fault(`${id} is ${value}`)
      const { allowed } = definition
      const values = Array.isArray(allowed)
        ? (allowed as ReadonlyArray<string>)
        : (allowed as Readonly<Record<string, ReadonlyArray<string>>> | undefined)?.[row.ServiceCategory ?? ""]
      if (allowed !== undefined && !values?.includes(value)) fault(`${id} may not be ${value}`)
    }
    const cost = (id: string) => exact(row[id] ?? "0")
    if ((row.PricingUnit === null) !== (row.PricingQuantity === null)) fault("PricingUnit without PricingQuantity")
    if ((row.ConsumedUnit === null) !== (row.ConsumedQuantity === null)) fault("ConsumedUnit without ConsumedQuantity")
    if (row.ListUnitPrice != null && cost("ListUnitPrice") * cost("PricingQuantity") !== cost("ListCost") * unit) {
      fault("ListUnitPrice × PricingQuantity is not ListCost")
    }
    if (row.ListUnitPrice === null && cost("ListCost") !== cost("BilledCost")) fault("ListCost is not BilledCost")
    if (!("ContractedUnitPrice" in row) && cost("ContractedCost") !== cost("BilledCost")) {
      fault("ContractedCost is not BilledCost")
    }
    if (cost("EffectiveCost") !== cost("BilledCost")) fault("EffectiveCost is not BilledCost")
    const times = ["BillingPeriodStart", "ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodEnd"].map(
      (id) => row[id] ?? ""
    )
    if (times.join() !== times.toSorted().join() || times[1] === times[2])
      fault("the charge period is not in its billing period")
    for (const unitOf of [row.PricingUnit, row.ConsumedUnit]) {
      if (unitOf != null && !/^(?:\d+ )?[A-Z][A-Za-z]*(?:[ -/][A-Z][A-Za-z]*)*s$/.test(unitOf))
        fault(`no unit: ${unitOf}`)
    }
    if (row.SkuId === null && row.SkuMeter !== null) fault("SkuMeter without SkuId")
    if (row.SkuPriceId != null && row.SkuId != null) {
      const price = `${row.SkuId} at ${row.ListUnitPrice}`
      if ((parents.get(row.SkuPriceId) ?? price) !== price) fault(`${row.SkuPriceId} is of ${price}, too`)
      parents.set(row.SkuPriceId, price)
    }
  }
  return faults
}
