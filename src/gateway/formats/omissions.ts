import { type Schema } from "effect"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { isGiven, unreadMembers } from "./unread-members.ts"

/** What a header may name; a caller chose it. */
const nameable = /^[\w.-]{1,64}$/
/** A header has room for so many names. */
const maxNames = 30

const listed = (names: ReadonlySet<string>): string => [...names].slice(0, maxNames).join(", ")

/** What a format calls members of the common form, with dots between the names of members within each other. */
export type MemberNames = Readonly<Record<string, string>>

/** The path of a member as the caller's format names it. */
export const namedAs = (names: MemberNames, [first = "", ...rest]: Fault["path"]): Fault["path"] =>
  typeof first === "string" && Object.hasOwn(names, first)
    ? [...(names[first] ?? first).split("."), ...rest]
    : [first, ...rest]

/** What a translation left out of a request, for the headers of its answer. */
export class Omissions {
  private readonly items = new Set<string>()
  private readonly tools = new Set<string>()
  private readonly members = new Set<string>()
  private readonly names: MemberNames

  /** `names`: what the caller's format calls members of the common form. */
  constructor(names: MemberNames = {}) {
    this.names = names
  }

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
    const own = Object.hasOwn(this.names, name) ? (this.names[name] ?? name) : name
    this.members.add(nameable.test(own) ? own : "unknown")
  }

  /** The members of a request that no translation reads, wherever they stand but in the conversation. */
  unread(request: unknown, schema: Schema.Top): void {
    for (const member of unreadMembers(request, schema)) this.member(member)
  }

  /** Those of these members that a request has. */
  withoutForm(request: Json, names: ReadonlyArray<string>): void {
    for (const name of names) if (isGiven(request[name])) this.member(name)
  }

  /** The members that were left out, as they are named. */
  get leftOut(): ReadonlyArray<string> {
    return [...this.members]
  }

  headers(): Readonly<Record<string, string>> {
    return {
      ...(this.items.size === 0 ? {} : { "x-omitted-items": listed(this.items) }),
      ...(this.tools.size === 0 ? {} : { "x-omitted-tools": listed(this.tools) }),
      ...(this.members.size === 0 ? {} : { "x-omitted-members": listed(this.members) })
    }
  }
}
