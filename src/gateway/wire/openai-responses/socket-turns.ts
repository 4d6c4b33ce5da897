import { Struct } from "effect"
import { isJson, type Json, listIn, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { GatewayError, type GatewayProblem, invalidMember } from "../../errors/gateway-error.ts"
import { edited, mergePatch, placesIn } from "../../json/json-edits.ts"
import { givenBody } from "../../pipeline/call-request.ts"

/** A turn that is stored nowhere else, for the next one on its socket to go on from. */
export interface LocalTurn {
  /** The id of its response. */
  readonly id: string
  /** The stored response that the conversation began with. */
  readonly previous: string | undefined
  /** The texts of all items since then, input and output, separated by commas. */
  readonly items: Buffer
}

/** A request for a response, as it came on a socket. */
export interface SocketTurn extends Pick<LocalTurn, "items" | "previous"> {
  /** The body of the same request by HTTP. */
  readonly body: Uint8Array
  /** Whether the model is to say nothing: the client will go on from the id of the response. */
  readonly warmsUp: boolean
  /** Whether the caller has its response stored. */
  readonly isStored: boolean
}

/** What a client says once it has read a response; nothing follows from it. */
const acknowledgement = "response.processed"

const notServed = (type: unknown) =>
  invalidMember(
    "type",
    `type: Expected response.create${typeof type === "string" ? `; the gateway does not serve ${type.slice(0, 100)}` : ""}`
  )

const comma = Buffer.from(",")

const joined = (some: Uint8Array, others: Uint8Array): Buffer =>
  Buffer.concat(some.length === 0 || others.length === 0 ? [some, others] : [some, comma, others])

/** The texts of the elements of an array, separated as they were. */
const elementsIn = (array: Uint8Array): Buffer => Buffer.from(Buffer.from(array).toString().slice(1, -1).trim())

/** The items of a request's input, as texts separated by commas. */
const inputOf = (bytes: Uint8Array, body: Json): Buffer => {
  const place = placesIn(bytes, 0, ["input"]).find(({ name }) => name === "input")
  if (place === undefined) return Buffer.alloc(0)
  const text = bytes.subarray(place.value, place.end)
  if (Array.isArray(body.input)) return elementsIn(text)
  return typeof body.input === "string"
    ? Buffer.from(`{"type":"message","role":"user","content":${Buffer.from(text).toString()}}`)
    : Buffer.alloc(0)
}

/** Reads a message of a client, which may go on from a turn that only its socket has; undefined where it asks for nothing. */
export const readTurn = (
  message: string,
  local: LocalTurn | undefined
): SocketTurn | GatewayError<GatewayProblem> | undefined => {
  const given = givenBody(Buffer.from(message))
  if (given instanceof GatewayError) return given
  const { body } = given
  if (body.type === acknowledgement) return undefined
  if (body.type !== "response.create") return notServed(body.type)
  const base = local !== undefined && body.previous_response_id === local.id ? local : undefined
  const previous = base === undefined ? body.previous_response_id : base.previous
  const patch = {
    type: null,
    generate: null,
    stream: true,
    ...(base === undefined ? {} : { previous_response_id: base.previous ?? null })
  }
  const bytes = edited(given.bytes, mergePatch(given.bytes, body, patch))
  const items = joined(base?.items ?? Buffer.alloc(0), inputOf(given.bytes, body))
  return {
    body: base === undefined ? bytes : withInput(bytes, body, items),
    warmsUp: body.generate === false,
    isStored: body.store !== false,
    previous: typeof previous === "string" ? previous : undefined,
    items
  }
}

const withInput = (bytes: Uint8Array, body: Json, items: Buffer): Uint8Array => {
  const input = `[${items.toString()}]`
  if (!Object.hasOwn(body, "input")) {
    const start = bytes.indexOf(0x7b) + 1
    return edited(bytes, [{ start, end: start, text: `"input":${input},` }])
  }
  const places = placesIn(bytes, 0, ["input"]).filter(({ name }) => name === "input")
  return edited(
    bytes,
    places.map(({ end, value }) => ({ start: value, end, text: input }))
  )
}

/** The turn that a socket keeps of a response, given its last event; undefined where the response is stored. */
export const localTurnOf = (turn: SocketTurn, event: string): LocalTurn | undefined => {
  const value = parsedJson(event)
  const response = isJson(value) ? value.response : undefined
  if (!isJson(response) || typeof response.id !== "string") return undefined
  const isStored = typeof response.store === "boolean" ? response.store : turn.isStored
  if (isStored && !turn.warmsUp) return undefined
  return { id: response.id, previous: turn.previous, items: joined(turn.items, outputOf(listIn(response.output))) }
}

const isUnreadable = (item: unknown): boolean =>
  isJson(item) && item.type === "reasoning" && typeof item.encrypted_content !== "string"

/**
 * Items of the output, as the input of the next turn has them. A provider that stores nothing reads no thoughts but encrypted
 * ones, and asks for those of an item whose id it knows.
 */
const outputOf = (output: ReadonlyArray<unknown>): Buffer => {
  const items = output.some(isUnreadable)
    ? output.filter((item) => !isUnreadable(item)).map((item) => (isJson(item) ? Struct.omit(item, ["id"]) : item))
    : output
  return Buffer.from(JSON.stringify(items).slice(1, -1))
}

/** What the sockets of one principal keep, the oldest first. */
interface OwnTurns {
  readonly turns: Map<object, LocalTurn>
  bytes: number
}

/**
 * What the sockets of a replica keep of their last turns, within a number of bytes: above it, the oldest is dropped of the
 * principal that has most of them.
 */
export class LocalTurns {
  private readonly owners = new Map<string, OwnTurns>()
  private readonly maxBytes: number
  private readonly maxTurnBytes: number
  private bytes = 0

  constructor({ maxBytes, maxTurnBytes }: { readonly maxBytes: number; readonly maxTurnBytes: number }) {
    this.maxBytes = maxBytes
    this.maxTurnBytes = maxTurnBytes
  }

  of(owner: string, socket: object): LocalTurn | undefined {
    return this.owners.get(owner)?.turns.get(socket)
  }

  keep(owner: string, socket: object, turn: LocalTurn): void {
    this.drop(owner, socket)
    if (turn.items.length > Math.min(this.maxBytes, this.maxTurnBytes)) return
    const own = this.owners.get(owner) ?? { turns: new Map(), bytes: 0 }
    this.owners.set(owner, own)
    own.turns.set(socket, turn)
    this.add(own, turn.items.length)
    while (this.bytes > this.maxBytes) this.dropOldest()
  }

  drop(owner: string, socket: object): void {
    const own = this.owners.get(owner)
    const turn = own?.turns.get(socket)
    if (own === undefined || turn === undefined) return
    own.turns.delete(socket)
    this.add(own, -turn.items.length)
    if (own.turns.size === 0) this.owners.delete(owner)
  }

  private add(own: OwnTurns, bytes: number): void {
    own.bytes += bytes
    this.bytes += bytes
  }

  private dropOldest(): void {
    let most: readonly [owner: string, own: OwnTurns] | undefined
    for (const one of this.owners) if (most === undefined || one[1].bytes > most[1].bytes) most = one
    for (const socket of most?.[1].turns.keys() ?? []) return this.drop(most![0], socket)
  }
}
