import { Context, Effect, Schema } from "effect"
import { HttpApiMiddleware } from "effect/http-api"
import { Problem } from "../problems/problem.ts"
import { ValidationFailed } from "../problems/problems.ts"

/** What a conditional header lists: `*`, or entity tags as they are written. */
type Listed = "*" | ReadonlyArray<string>

/**
 * Whether a request acts only on what has a certain tag. In formats that others define nothing has one, so that none matches
 * (RFC 9110 §13.1.1).
 */
export const requiresSomeTag = (headers: Readonly<Record<string, string | undefined>>): boolean =>
  (headers["if-match"] ?? "*").trim() !== "*"

/** What a request requires of the current entity tag of its resource (RFC 9110 §13.1). */
export interface Precondition {
  readonly ifMatch: Listed | undefined
  readonly ifNoneMatch: Listed | undefined
}

const tag = String.raw`(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"`
/** The form of a conditional header. Empty elements of a list are ignored (RFC 9110 §5.6.1.2). */
export const conditionalPattern = String.raw`^(?:\*|(?:[ \t]*,)*[ \t]*${tag}(?:[ \t]*,(?:[ \t]*${tag})?)*)$`
const wellFormed = new RegExp(conditionalPattern, "u")
const eachTag = new RegExp(tag, "gu")

/** What an answer may be compressed with. */
export type Coding = "br" | "gzip"

/** The tag of a representation in a coding. */
export const withCoding = (text: string, coding: Coding): string => text.replace(/"$/u, `+${coding}"`)

/** The tag of the same representation in no coding, by which preconditions are evaluated. */
const withoutCoding = (text: string): string => text.replace(/\+(?:br|gzip)"$/u, '"')

const listedIn = (header: string | undefined): Listed | undefined | null => {
  if (header === undefined) return undefined
  if (!wellFormed.test(header)) return null
  return header === "*" ? "*" : (header.match(eachTag) ?? []).map(withoutCoding)
}

/** The precondition of a request; undefined where it has none. */
export const preconditionIn = (
  headers: Readonly<Record<string, string | undefined>>
): Effect.Effect<Precondition | undefined, ValidationFailed> => {
  const given = { "if-match": headers["if-match"], "if-none-match": headers["if-none-match"] }
  if (given["if-match"] === undefined && given["if-none-match"] === undefined) return none
  const ifMatch = listedIn(given["if-match"])
  const ifNoneMatch = listedIn(given["if-none-match"])
  if (ifMatch !== null && ifNoneMatch !== null) return Effect.succeed({ ifMatch, ifNoneMatch })
  const errors = [
    ...(ifMatch === null ? [{ path: ["headers", "if-match"], message: expected }] : []),
    ...(ifNoneMatch === null ? [{ path: ["headers", "if-none-match"], message: expected }] : [])
  ]
  return Effect.fail(
    new ValidationFailed({
      errors,
      detail: errors.map(({ message, path }) => `${path.join(".")}: ${message}`).join("; ")
    })
  )
}
const none = Effect.undefined
const expected = 'Expected * or entity tags with commas between them, such as "3"'

/** The strong entity tag of a version. */
export const entityTag = (version: number | string): string => `"${version}"`

/** The entity tag of a representation by what can be edited, and by what use alone changes, where it has that. */
export const entityTagOf = (edited: string, used: string | undefined): string =>
  // Begins with a letter, so that no digest is taken for a version.
  entityTag(used === undefined ? `h${edited}` : `h${edited}~${used}`)

/** A tag without what use changes: who edits a resource need not have seen its last use. */
const edited = (text: string): string => text.replace(/~[^~"]*"$/u, '"')

const isWeak = (text: string): boolean => text.startsWith("W/")
const opaque = (text: string): string => (isWeak(text) ? text.slice(2) : text)

/** Whether If-Match admits a resource with this tag (undefined: there is none). Weak tags never match (RFC 9110 §8.8.3.2). */
export const matches = (listed: Listed, current: string | undefined): boolean =>
  current !== undefined && (listed === "*" || listed.some((one) => !isWeak(one) && edited(one) === edited(current)))

/** Whether If-None-Match names the tag of a resource; weak tags match as well (RFC 9110 §13.1.2). */
export const names = (listed: Listed, current: string | undefined): boolean =>
  current !== undefined && (listed === "*" || listed.some((one) => opaque(one) === current))

/** Whether a write may change a resource with this tag (undefined: there is none). */
export const holds = ({ ifMatch, ifNoneMatch }: Precondition, current: string | undefined): boolean =>
  (ifMatch === undefined || matches(ifMatch, current)) && (ifNoneMatch === undefined || !names(ifNoneMatch, current))

export class VersionMismatch extends Problem<VersionMismatch>()(
  "VersionMismatch",
  {
    slug: "version-mismatch",
    status: 412,
    meaning:
      "The current ETag of the resource is not one that If-Match names, or is one that If-None-Match does; nothing was changed. `version` is the current version, null of a resource without one. Read it again, and repeat the change with its ETag."
  },
  { version: Schema.NullOr(Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))) }
) {}

/** The problem of a precondition that does not hold for a resource with this tag. */
export const mismatchOf = (current: string | undefined): VersionMismatch => {
  const version = /^"([1-9]\d{0,8})\b/u.exec(current ?? "")?.[1]
  return new VersionMismatch({ version: version === undefined ? null : Number(version) })
}

/** A precondition, whether the service has to evaluate it, and whether that was done. */
export interface GivenPrecondition extends Precondition {
  readonly isForService: boolean
  isEvaluated: boolean
  /** The current tag of the resource, as its GET sends it; undefined where there is none. */
  readonly currentTag: Effect.Effect<string | undefined>
  /** The version of the row that a precondition was evaluated on, where the statement of the change compares it. */
  readonly seen?: string | undefined
  /** Set once that statement found another version, and changed nothing. */
  isOutdated?: boolean
}

/** The precondition of the request in hand; undefined where it has none. */
export const CurrentPrecondition = Context.Reference<GivenPrecondition | undefined>("app/kernel/CurrentPrecondition", {
  defaultValue: () => undefined
})

/** Ends a change whose statement has found another version: the precondition is evaluated again. */
export const outdated: Effect.Effect<never> = Effect.flatMap(CurrentPrecondition, (given) => {
  if (given !== undefined) given.isOutdated = true
  return Effect.die(new Error("The resource has changed since its precondition was evaluated"))
})

/** The entity tag of a document with a default, while none was ever written. */
export const unwrittenTag = entityTag(0)

const evaluated = (current: string | undefined, of: (given: Precondition) => Precondition) =>
  Effect.flatMap(CurrentPrecondition, (given): Effect.Effect<void, VersionMismatch> => {
    if (given?.isForService !== true) return Effect.void
    given.isEvaluated = true
    return holds(of(given), current) ? Effect.void : Effect.fail(mismatchOf(current))
  })

const each = (listed: Listed | undefined, read: (tag: string) => string): Listed | undefined =>
  listed === undefined || listed === "*" ? listed : listed.map(read)

/**
 * Fails where the precondition of the request does not hold for a locked resource with this tag (undefined: there is none).
 * `read` takes from the tags of the request what the change does not depend on.
 */
export const requireTag = (
  current: string | undefined,
  read: (tag: string) => string = (tag) => tag
): Effect.Effect<void, VersionMismatch> =>
  evaluated(current, ({ ifMatch, ifNoneMatch }) => ({
    ifMatch: each(ifMatch, read),
    ifNoneMatch: each(ifNoneMatch, read)
  }))

/** The same for a document with a default that was never written: its first version overwrites none. */
export const requireUnwritten: Effect.Effect<void, VersionMismatch> = evaluated(
  unwrittenTag,
  ({ ifMatch, ifNoneMatch }) => ({
    ifMatch,
    ifNoneMatch: ifNoneMatch === "*" ? undefined : ifNoneMatch
  })
)

/** Fails where the precondition of the request does not hold for its resource, which the caller has locked. */
export const requireUnchanged: Effect.Effect<void, VersionMismatch> = Effect.flatMap(CurrentPrecondition, (given) =>
  given?.isForService === true ? Effect.flatMap(given.currentTag, requireTag) : Effect.void
)

export class PreconditionRequired extends Problem<PreconditionRequired>()("PreconditionRequired", {
  slug: "precondition-required",
  status: 428,
  meaning:
    "The request grants what another caller asked for, and does not say what the caller saw of it: name what is granted, or send If-Match with the ETag of what was read."
}) {}

/** Fails unless the request names a tag of what its caller saw (RFC 6585 §3). */
export const requireSeen: Effect.Effect<void, PreconditionRequired> = Effect.flatMap(CurrentPrecondition, (given) =>
  given?.ifMatch === undefined || given.ifMatch === "*" ? Effect.fail(new PreconditionRequired({})) : Effect.void
)

/** Evaluates If-Match and If-None-Match of every request, and gives what is read by its id an entity tag. */
export class Preconditions extends HttpApiMiddleware.Service<Preconditions>()("app/kernel/Preconditions", {
  error: [VersionMismatch, ValidationFailed]
}) {}

/** A GET whose path does not end in a parameter, and that still answers one resource, which has an entity tag. */
export const AnswersResource = Context.Reference<boolean>("app/kernel/AnswersResource", { defaultValue: () => false })

/** The path under which the resource is read that an endpoint acts on, where its own path does not say. */
export const ActsOn = Context.Reference<string | undefined>("app/kernel/ActsOn", { defaultValue: () => undefined })

/** How the precondition of an endpoint is evaluated. */
export const Evaluation = Context.Reference<
  /** The resource is read and its row locked in a transaction around the handler. */
  | "around-handler"
  /** The service calls `requireUnchanged`, or `requireTag` with a version, under its own lock. */
  | "by-service"
  /** The statement of the change compares the row with the version that the precondition was evaluated on (`seen`). */
  | "as-seen"
  /** Before the handler, which changes nothing that the resource shows. */
  | "ahead"
>("app/kernel/Evaluation", { defaultValue: () => "around-handler" })
