const whole = new Intl.NumberFormat("en-US")
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 })
const cents = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" })
const inDollars = (digits: number) =>
  new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", maximumFractionDigits: digits })
const fine = inDollars(4)
const exact = inDollars(9)
const dateTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" })
const dateOnly = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" })
const distance = new Intl.RelativeTimeFormat("en", { numeric: "auto" })

const least = 0.0001

/** An amount in US dollars, in cents; a small one with four decimals. */
export const usd = (amount: number): string => {
  const size = Math.abs(amount)
  if (size === 0 || size >= 0.1) return cents.format(amount)
  return size < least ? `${amount < 0 ? "> -" : "< "}${fine.format(least)}` : fine.format(amount)
}

/** The same, with all its decimals shown by the pointer. */
export const Usd = ({ amount }: { readonly amount: number }) => <span title={exact.format(amount)}>{usd(amount)}</span>

/** A whole number; nothing where there is none. */
export const count = (value: number | null): string => (value === null ? "" : whole.format(value))

export const shortCount = (value: number): string =>
  Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value)

/** A share of a hundred. */
export const percent = (value: number, digits = 1): string => `${value.toFixed(digits)} %`

/** How long something took, in whole milliseconds. */
export const milliseconds = (value: number | null): string => (value === null ? "" : `${count(Math.round(value))} ms`)

/** A quantity in the unit of its cap or quota. */
export const quantity = (value: number, unit: string): string =>
  unit === "usd" ? usd(value) : `${count(value)} ${value === 1 ? unit.replace(/s$/, "") : unit}`

const steps = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60]
] as const

/** How long ago, or how soon. */
export const relative = (at: string, now = Date.now()): string => {
  const seconds = (Date.parse(at) - now) / 1000
  const step = steps.find(([, length]) => Math.abs(seconds) >= length)
  return step === undefined
    ? seconds > 0
      ? "in a moment"
      : "just now"
    : distance.format(Math.trunc(seconds / step[1]), step[0])
}

interface OfMoment {
  readonly at: string | null
  readonly style?: "relative" | "full" | "date"
}

/** A moment in local time; the pointer shows it in UTC. */
export const Moment = ({ at, style = "relative" }: OfMoment) => {
  if (at === null) return <span className="soft">never</span>
  const moment = new Date(at)
  const text =
    style === "relative" ? relative(at) : style === "date" ? dateOnly.format(moment) : dateTime.format(moment)
  return (
    <time dateTime={at} title={`${dateTime.format(moment)} (${moment.toISOString()} UTC)`}>
      {text}
    </time>
  )
}

/** A text with every UUID in it cut to its ends, which is enough to tell them apart. */
export const short = (text: string): string =>
  text.replace(/([\da-f]{4})[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{8}([\da-f]{4})/g, "$1…$2")

/** The words of a name in camel case, in kebab case or in snake case. */
export const words = (name: string): string => {
  const text = name
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .replace(/[-_]/g, " ")
    .toLowerCase()
    .replace(/\b(?:api|llm)\b/g, (word) => word.toUpperCase())
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** The browser's time zone. */
export const ownTimeZone = new Intl.DateTimeFormat().resolvedOptions().timeZone

const zones = [...new Set([ownTimeZone, "UTC", ...Intl.supportedValuesOf("timeZone")])]

/** Every time zone, the browser's own and UTC first. */
export const timeZones = (): ReadonlyArray<string> => zones

/** How long until a moment, to the second: "4 min 12 s". */
export const remaining = (at: string, now: number): string => {
  const seconds = Math.max(0, Math.floor((Date.parse(at) - now) / 1000))
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  if (hours >= 48) return `${Math.floor(hours / 24)} days`
  if (hours > 0) return `${hours} h ${minutes} min`
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`
}

interface OfText {
  readonly as?: "code" | "small" | "span" | "strong"
  readonly text: string | undefined
  readonly title?: string | undefined
}

/** A text of any length in a table: what does not fit is cut, and shown by the pointer. */
export const Cut = ({ as: Element = "span", text, title = text }: OfText) => (
  <Element className="cut" title={title}>
    {text}
  </Element>
)
