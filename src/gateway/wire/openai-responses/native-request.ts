import { RouteNotFound } from "../../../kernel/problems/problems.ts"
import { isJson, listIn, textIn, type Json } from "../../../kernel/json/parsed-json.ts"
import { type OpenedId } from "../../conversations/sealed-ids.ts"
import { gatewayError, type GatewayError, invalidMember } from "../../errors/gateway-error.ts"
import { cuts, type Edit, edited, placesIn } from "../../json/json-edits.ts"
import { type DialectRequest } from "../../pipeline/call-request.ts"

/** A request with its provider's own ids. */
export interface NativeRequest {
  readonly bytes: Uint8Array
  /** The provider that stores what the request refers to; undefined if any may serve it. */
  readonly provider: string | undefined
  /** The caller's ids of what the request refers to, by the provider's. */
  readonly known: ReadonlyMap<string, string>
}

const missing = (param: string, id: string, code: string) =>
  gatewayError(
    new RouteNotFound({ detail: `Nothing with the id ${id} is stored: it never was, expired, or was deleted.` }),
    {
      code,
      param
    }
  )

/** Members of an item that refer to another item, which the provider must have. */
const references = (item: Json): ReadonlyArray<string> =>
  item.type === "item_reference" ? ["id"] : item.type === "mcp_approval_response" ? ["approval_request_id"] : []

/**
 * Replaces the gateway's ids in the text of a request with those of the provider that stores them. What is another
 * tenant's, or was never an id of the gateway, does not reach a provider: a reference to it is refused, an item that comes
 * with its content loses its id, and thoughts that only another provider can read are left out.
 */
export const nativeRequest = (
  { body, bytes }: Pick<DialectRequest, "body" | "bytes">,
  open: (id: string) => OpenedId | undefined
): NativeRequest | GatewayError<RouteNotFound> | GatewayError => {
  const known = new Map<string, string>()
  const edits: Array<Edit> = []
  let provider: string | undefined
  const opened = (id: unknown): OpenedId | undefined => {
    const found = typeof id === "string" ? open(id) : undefined
    if (found === undefined) return undefined
    provider ??= found.provider
    if (found.provider !== provider) return undefined
    known.set(found.id, textIn(id))
    return found
  }
  const { input, previous_response_id: previous } = body
  if (typeof previous === "string") {
    const found = opened(previous)
    if (found === undefined) return missing("previous_response_id", previous, "previous_response_not_found")
    const place = placesIn(bytes, 0, ["previous_response_id"]).at(-1)!
    edits.push({ start: place.value, end: place.end, text: JSON.stringify(found.id) })
  }
  const items = listIn(input)
  if (items.some((item) => isJson(item) && ("id" in item || "approval_request_id" in item))) {
    const place = placesIn(bytes, 0, ["input"]).at(-1)!
    const places = placesIn(bytes, place.value)
    // What must be stored decides which provider it is.
    for (const [index, item] of items.entries()) {
      if (!isJson(item)) continue
      for (const name of references(item)) {
        if (opened(item[name]) === undefined) {
          return missing(`input.${index}.${name}`, textIn(item[name]), "item_not_found")
        }
      }
    }
    const foreign = new Set<number>()
    for (const [index, item] of items.entries()) {
      if (!isJson(item)) continue
      const replaced = ["id", "approval_request_id"].filter((name) => name in item)
      if (replaced.length === 0) continue
      const found = new Map(replaced.map((name) => [name, opened(item[name])]))
      if (item.type === "reasoning" && found.get("id") === undefined) {
        foreign.add(index)
        continue
      }
      const members = placesIn(bytes, places[index]!.start)
      for (const { end, name = "", value } of members) {
        const id = found.get(name)
        if (id !== undefined) edits.push({ start: value, end, text: JSON.stringify(id.id) })
      }
      edits.push(
        ...cuts(members, (at) => found.has(members[at]!.name ?? "") && found.get(members[at]!.name ?? "") === undefined)
      )
    }
    if (foreign.size === items.length && previous === undefined) {
      return invalidMember("input", "input: Expected an item that the model can answer")
    }
    for (const cut of cuts(places, (index) => foreign.has(index))) edits.push(cut)
  }
  return { bytes: edited(bytes, edits), provider, known }
}
