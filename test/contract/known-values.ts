import { type Json, type Operation } from "./document.ts"

type Known = string | number

/** What a request that succeeded asked for. */
export interface KnownRequest {
  readonly target: string
  readonly body: unknown
}

/** Members that hold the id of something which their name does not say, and where that stands. */
const placeOfMember: Readonly<Record<string, string>> = { subject: "/api/agents/{id}" }

const mostKept = 40

/**
 * What the service itself has answered so far, by the collection that answered and the member's name: so that generated
 * requests are about things that exist.
 */
export class KnownValues {
  private readonly values = new Map<string, Array<Known>>()
  private readonly withheld = new Set<Known>()
  private readonly places = new Set<string>()
  /** Where ids stand: the first key of `values` that ends so, which stays the first. */
  private readonly idKeys = new Map<string, string>()
  private readonly things = new Map<string, Array<Readonly<Record<string, Known>>>>()
  private readonly requests = new Map<string, Array<KnownRequest>>()

  /** Keeps values out: those of the credentials that the test itself calls with. */
  withhold(value: Known): void {
    this.withheld.add(value)
  }

  private add(key: string, value: Known): void {
    const list = this.values.get(key) ?? []
    if (list.includes(value) || this.withheld.has(value)) return
    list.push(value)
    if (list.length > mostKept) list.shift()
    this.values.set(key, list)
  }

  /** Learns every member of an answer, however deep it stands. */
  learn(operation: Operation, body: unknown): void {
    if (Array.isArray(body)) return body.slice(-5).forEach((item: unknown) => this.learn(operation, item))
    if (typeof body !== "object" || body === null) return
    if (this.withheld.has(Reflect.get(body, "id") as Known)) return
    const thing: Record<string, Known> = {}
    for (const [name, value] of Object.entries(body as Json)) {
      if (typeof value === "string" || typeof value === "number") {
        thing[name] = value
        for (const collection of segmentsOf(operation.path)) this.add(`${collection}.${name}`, value)
        this.add(`.${name}`, value)
      } else this.learn(operation, value)
    }
    if (thing.id !== undefined) this.addThing(segmentsOf(operation.path)[0] ?? "", thing)
  }

  private addThing(collection: string, thing: Readonly<Record<string, Known>>): void {
    const known = (this.things.get(collection) ?? []).filter(({ id }) => id !== thing.id)
    this.things.set(collection, [...known, thing].slice(-mostKept))
  }

  /** The things known that have all of these members, the newest of a collection last. */
  thingsWith(names: ReadonlyArray<string>): ReadonlyArray<Readonly<Record<string, Known>>> {
    return [...this.things.values()].flatMap((things) =>
      things.filter((thing) => names.every((name) => thing[name] !== undefined))
    )
  }

  /** Learns from a request that succeeded: what conforms is rarely enough for members that must fit each other. */
  learnRequest({ operationId }: Operation, request: KnownRequest): void {
    this.requests.set(operationId, [...this.requestsOf(operationId), request].slice(-mostKept))
  }

  /** The requests of an operation that succeeded, the newest last. */
  requestsOf(operationId: string): ReadonlyArray<KnownRequest> {
    return this.requests.get(operationId) ?? []
  }

  /** Learns where the things of an answer stand, below the collection that was asked: which belongs to which. */
  learnPlaces(target: string, body: unknown): void {
    const path = target.split("?")[0] ?? ""
    const items: unknown = typeof body === "object" && body !== null && "items" in body ? body.items : [body]
    for (const item of Array.isArray(items) ? items : []) {
      const id: unknown = typeof item === "object" && item !== null && "id" in item ? item.id : undefined
      if (typeof id !== "string" && typeof id !== "number") continue
      this.places.delete(`${path}/${id}`)
      if (!this.withheld.has(id)) this.places.add(`${path}/${id}`)
    }
  }

  /** The places known that a path's parameters can be taken from together, the newest last. */
  placesOf(path: string): ReadonlyArray<string> {
    const form = new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`)
    const newest: Array<string> = []
    for (const place of [...this.places].toReversed()) {
      if (form.test(place) && newest.push(place) === mostKept) break
    }
    return newest.toReversed()
  }

  /** Whether a member is known to hold the id of a thing. */
  isReference(name: string): boolean {
    return name.endsWith("Id") || name in placeOfMember
  }

  /** Values for a path parameter: of the collections before it, the nearest first. */
  forPath(operation: Operation, name: string): ReadonlyArray<Known> {
    const before = operation.path.slice(0, operation.path.indexOf(`{${name}}`))
    for (const collection of segmentsOf(before).toReversed()) {
      for (const member of name.endsWith("Id") ? [name, "id"] : [name]) {
        const found = this.values.get(`${collection}.${member}`)
        if (found !== undefined) return found
      }
    }
    return []
  }

  /** Values for a member or query parameter: ids of the collection that `xId` names, else what bore the same name. */
  forMember(name: string): ReadonlyArray<Known> {
    if (name === "cursor") return this.values.get(".nextCursor") ?? []
    const place = placeOfMember[name]
    if (place !== undefined) return this.placesOf(place).map((known) => known.slice(known.lastIndexOf("/") + 1))
    const stem = /^(\w+)Id$/.exec(name)?.[1]?.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
    return (stem === undefined ? undefined : this.idsOf(`${stem}s.id`)) ?? this.values.get(`.${name}`) ?? []
  }

  private idsOf(key: string): ReadonlyArray<Known> | undefined {
    const known = this.idKeys.get(key)
    if (known !== undefined) return this.values.get(known)
    for (const [candidate, values] of this.values) {
      if (candidate !== key && !candidate.endsWith(`-${key}`)) continue
      this.idKeys.set(key, candidate)
      return values
    }
    return undefined
  }
}

const segmentsOf = (path: string): ReadonlyArray<string> =>
  path.split("/").filter((segment) => segment !== "" && segment !== "api" && !segment.startsWith("{"))
