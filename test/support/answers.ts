import { type Schema } from "effect"
import { type HttpApiMiddleware, type HttpApiSchema } from "effect/http-api"
import { type Api } from "../../src/api.ts"

/**
 * What tests read of the body of an answer: the endpoint's successes as the API's definition has them on the wire, and
 * the members of problems.
 */
export type BodyOf<Method extends string, Path extends string> =
  Extract<Written<Method, Path>, keyof Bodies> extends infer Key
    ? [Key] extends [never]
      ? Extract<Patterned<Method, Path>, keyof Bodies> extends infer Key
        ? [Key] extends [never]
          ? Untyped
          : Bodies[Key & keyof Bodies]
        : never
      : Bodies[Key & keyof Bodies]
    : never

/** A body that no definition tells: of a path known only when it runs, or of a wire that others defined. */
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into it as they expect it to be
export type Untyped = any

type Groups = (typeof Api)["groups"]
type Endpoint = {
  [Group in keyof Groups]: Groups[Group]["endpoints"][keyof Groups[Group]["endpoints"]]
}[keyof Groups]

// By method and path, each parameter in the path a colon.
interface Bodies extends BodiesByEndpoint {}
type BodiesByEndpoint = {
  readonly [E in Endpoint as `${E["method"]} ${Declared<WithoutQuery<E["path"]>>}`]: Body<WireOf<E["~Success"]>>
}

type WireOf<S> =
  S extends Schema.toCodecJson<infer Inner>
    ? WireOf<Inner>
    : S extends HttpApiSchema.WithHeaders<infer Inner, infer _Headers>
      ? WireOf<Inner>
      : S extends HttpApiSchema.StreamSchema
        ? string
        : S extends Schema.Top
          ? Exclude<S["Encoded"], void>
          : never

type WithoutQuery<Path extends string> = Path extends `${infer Before}?${string}`
  ? WithoutQuery<Before>
  : Path extends `${infer Before}/`
    ? Before
    : Path

type Declared<Path extends string> = Path extends `${infer Segment}/${infer Rest}`
  ? `${DeclaredSegment<Segment>}/${Declared<Rest>}`
  : DeclaredSegment<Path>
type DeclaredSegment<Segment extends string> = Segment extends `${infer Before}:${string}`
  ? Before extends ""
    ? ":"
    : `${Before}${string}`
  : Segment

type Written<Method extends string, Path extends string> = `${Method} ${WithoutQuery<Path>}`
type Patterned<Method extends string, Path extends string> = `${Method} ${Pattern<WithoutQuery<Path>>}`
type Pattern<Path extends string> = Path extends `${infer Segment}/${infer Rest}`
  ? `${SegmentPattern<Segment>}/${Pattern<Rest>}`
  : SegmentPattern<Path>
type SegmentPattern<Segment extends string> = Segment extends KnownSegment
  ? Segment
  : {} extends Readonly<Record<Segment, unknown>>
    ? HolePattern<Segment>
    : ":"
// What is put in right after a known segment is a query; of two values in one segment, the second may be anything.
type HolePattern<Segment extends string> = [QueriedSegment<Segment>] extends [never]
  ? Segment extends `${infer _First}${infer _Second}`
    ? never
    : ":"
  : QueriedSegment<Segment>
type QueriedSegment<Segment extends string, Known = Exclude<KnownSegment, "" | ":">> = Known extends string
  ? Segment extends `${Known}${string}`
    ? Known
    : never
  : never

type KnownSegment = SegmentsOf<keyof Bodies>
type SegmentsOf<Key> = Key extends `${string} ${infer Path}` ? Split<Path> : never
type Split<Path extends string> = Path extends `${infer Segment}/${infer Rest}` ? Segment | Split<Rest> : Path

// One that may be a stream or text, too, is read as the object it is otherwise.
type Body<Wire> = [Wire] extends [never]
  ? Problem
  : [Exclude<Wire, string>] extends [never]
    ? string & Problem
    : Read<Exclude<Wire, string>> extends infer Success
      ? Success & Omit<Problem, keyof Success>
      : never

/** The members of every problem of the API. */
interface Problem extends DeclaredProblem {
  readonly traceId: string
}
type DeclaredProblem = Read<
  Endpoint["~Error"]["Encoded"] | HttpApiMiddleware.ErrorSchema<Endpoint["~Middleware"]>["Encoded"]
>

type Primitive = string | number | boolean | bigint | null | undefined

/**
 * How tests look into a part of a body: a member that may be absent or null is there, as is an item of a list, since the
 * test fails where it is not. Of several objects it has the members of each.
 */
type Read<Part> = unknown extends Part
  ? Untyped
  : [Schema.Json] extends [Part]
    ? Untyped
    :
        | Exclude<Extract<Part, Primitive>, null | undefined>
        | ReadList<Extract<Part, ReadonlyArray<unknown>>>
        | ReadObject<Exclude<Part, Primitive | ReadonlyArray<unknown>>>
type ReadList<Part> = [Part] extends [never] ? never : Part extends ReadonlyArray<infer Item> ? List<Read<Item>> : never
type ReadObject<Part> = [Part] extends [never]
  ? never
  : { readonly [Member in MembersOf<Part>]: Read<MemberOf<Part, Member>> }
type MembersOf<Part> = Part extends unknown ? keyof Part : never
type MemberOf<Part, Member extends PropertyKey> = Part extends { readonly [M in Member]?: infer Value } ? Value : never

/** A list whose items are there without a question. */
interface List<Item> extends Array<Item> {
  readonly 0: Item
  readonly 1: Item
  readonly 2: Item
  readonly 3: Item
  at(index: number): Item
  find(isMeant: (item: Item, index: number, list: Array<Item>) => unknown): Item
  filter(isMeant: (item: Item, index: number, list: Array<Item>) => unknown): List<Item>
  slice(start?: number, end?: number): List<Item>
}
