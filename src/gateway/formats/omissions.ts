import { isJson, type Json } from "../../kernel/json/parsed-json.ts"

/** What a header may name; a caller chose it. */
const nameable = /^[\w.-]{1,64}$/
/** A header has room for so many names. */
const maxNames = 30

const listed = (names: ReadonlySet<string>): string => [...names].slice(0, maxNames).join(", ")

const isGiven = (value: unknown): boolean =>
  value !== undefined && value !== null && (!isJson(value) || Object.keys(value).length > 0)

/** What a translation left out of a request, for the headers of its answer. */
export class Omissions {
  private readonly items = new Set<string>()
  private readonly tools = new Set<string>()
  private readonly members = new Set<string>()

  /** A part of the conversation, by its type. */
  item(type: unknown): void {
    this.items.add(typeof type === "string" && nameable.test(type) ? type : "unknown")
  }

  /** A tool that the provider of the format runs, by its type. */
  tool(type: unknown): void {
    this.tools.add(typeof type === "string" && nameable.test(type) ? type : "unknown")
  }

  /** A member of the request. */
  member(name: string): void {
    this.members.add(nameable.test(name) ? name : "unknown")
  }

  /** The members of a request that no translation reads. */
  unread(body: object, read: Readonly<Record<string, unknown>>): void {
    for (const [name, value] of Object.entries(body))
      if (!Object.hasOwn(read, name) && isGiven(value)) this.member(name)
  }

  /** Those of these members that a request has. */
  withoutForm(request: Json, names: ReadonlyArray<string>): void {
    for (const name of names) if (isGiven(request[name])) this.member(name)
  }

  headers(): Readonly<Record<string, string>> {
    return {
      ...(this.items.size === 0 ? {} : { "x-omitted-items": listed(this.items) }),
      ...(this.tools.size === 0 ? {} : { "x-omitted-tools": listed(this.tools) }),
      ...(this.members.size === 0 ? {} : { "x-omitted-members": listed(this.members) })
    }
  }
}
