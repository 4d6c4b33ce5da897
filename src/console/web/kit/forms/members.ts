/** A member of an operation's body, as its schema declares it. */
export interface Member {
  /** The type in JSON, or the format of a text that has one. */
  readonly kind: string
  readonly options?: ReadonlyArray<string> | undefined
  readonly min?: number | undefined
  readonly max?: number | undefined
  readonly maxLength?: number | undefined
  readonly isRequired?: boolean | undefined
  readonly isNullable?: boolean | undefined
  /** Whether it is a text that may not be empty. */
  readonly isFilled?: boolean | undefined
  /** Whether it lists texts without spaces, so that spaces may stand between them. */
  readonly ofWords?: boolean | undefined
}

/** The members of a body, by their paths in it. */
export type Members = Readonly<Record<string, Member>>

/** What a member is in a thing that is changed; undefined where the thing does not have it. */
export const valueAt = (of: unknown, path: string): unknown =>
  path
    .split(".")
    .reduce<unknown>((value, name) => (value as Readonly<Record<string, unknown>> | null | undefined)?.[name], of)

/** Whether a field must be filled: the schema says so, or the thing that is changed has a text or figure that cannot be taken away. */
export const isNeeded = ({ isFilled, isNullable, isRequired, kind }: Member, current: unknown): boolean => {
  if (isRequired === true) return kind !== "string" || isFilled === true
  const cannotBeEmpty = isFilled === true || kind === "integer" || kind === "number"
  return current !== undefined && current !== null && isNullable !== true && cannotBeEmpty
}

/** A moment in local time, to the minute, as a field for it has it. */
export const localOf = (at: string): string => {
  const moment = new Date(at)
  return new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

/** The value of an empty field: undefined where a new thing is sent without the member. */
const emptied = ({ isNullable, isRequired, kind }: Member, current: unknown): unknown => {
  if (current === undefined && isRequired !== true) return undefined
  if (current !== undefined && isNullable === true) return null
  return kind === "array" ? [] : kind === "string" || kind === "uri" ? "" : undefined
}

/** The value of a field as the operation takes it. */
const valueOf = (field: HTMLInputElement, member: Member, current: unknown): unknown => {
  const { dataset, value } = field
  if (dataset.member === "json") return JSON.parse(value)
  if (field.type === "checkbox") return field.checked || (current === undefined ? undefined : false)
  const text = dataset.member === "exact" ? value : value.trim()
  if (text === "") return emptied(member, current)
  switch (member.kind) {
    case "integer":
    case "number": {
      const unit = Number(dataset.unit ?? 1)
      const number = unit === 1 ? Number(text) : Math.round(Number(text) * unit)
      return Number.isNaN(number) ? text : number
    }
    case "date-time":
      // A field shows minutes, and what is not touched keeps its seconds.
      return typeof current === "string" && text === localOf(current) ? current : new Date(text).toISOString()
    case "array":
      return text
        .split(member.ofWords === true ? /[\s,]+/ : /[\n,]/)
        .map((part) => part.trim())
        .filter((part) => part !== "")
    default:
      return text
  }
}

/** The body that the fields of a form make. What is empty is left out for a new thing, and removed from a changed one. */
export const bodyOf = (form: HTMLFormElement, members: Members, of: unknown): Record<string, unknown> => {
  const body: Record<string, unknown> = {}
  for (const field of form.querySelectorAll<HTMLInputElement>("[data-member]")) {
    const value = valueOf(field, members[field.name] ?? { kind: "string" }, valueAt(of, field.name))
    if (value === undefined) continue
    const path = field.name.split(".")
    const last = path.pop() ?? ""
    const within = path.reduce((object, name) => (object[name] ??= {}) as Record<string, unknown>, body)
    within[last] = value
  }
  return body
}
