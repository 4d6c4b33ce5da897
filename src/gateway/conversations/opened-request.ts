import { isJson, listIn, parsedJson, textIn, type Json } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { ProviderRefused } from "../configuration/domain.ts"
import { gatewayError, type GatewayError, invalidMember } from "../errors/gateway-error.ts"
import { type Change, edited, editsAt } from "../json/json-edits.ts"
import { type IdScope, type KeptId, keptIds, mayHoldIds } from "../json/kept-ids.ts"
import { type OpenedId } from "./sealed-ids.ts"

/** A request with its provider's own ids. */
export interface OpenedRequest {
  readonly body: Json
  readonly bytes: Uint8Array
  /** The provider that keeps what the request refers to; undefined if any may serve it. */
  readonly provider: string | undefined
  /** The member that decided which provider it is. */
  readonly param: string
  /** The caller's ids of what the request refers to, by the provider's. */
  readonly known: ReadonlyMap<string, string>
}

/** The code of an id that is not known, by the name of its member. */
const codeOf = ({ path }: KeptId): string => {
  const [name = "", outer = ""] = path.filter((key) => typeof key === "string").toReversed()
  if (name === "approval_request_id" || (name === "id" && outer === "input")) return "item_not_found"
  return `${(name === "id" ? outer : name).replace(/_ids?$/, "")}_not_found`
}

const missing = (found: KeptId) =>
  gatewayError(
    new ProviderRefused({
      detail: `Nothing with the id ${found.id} is stored: it never was, expired, or was deleted.`
    }),
    { status: 404, code: codeOf(found), param: found.path.join(".") }
  )

const elsewhere = ({ path }: KeptId, keeper: string, provider: string | undefined) => {
  const param = path.join(".")
  return invalidMember(
    param,
    `${param}: The provider ${keeper} keeps this, and ${provider} keeps what else the request refers to; no provider has both`
  )
}

/** The item of the Responses API whose own member an id is, where the item comes with its content and may lose the id. */
const itemOf = ({ path: [input, index, name] }: KeptId, body: Json): Json | undefined => {
  if (input !== "input" || typeof index !== "number" || (name !== "id" && name !== "approval_request_id"))
    return undefined
  const item = listIn(body.input)[index]
  if (!isJson(item)) return undefined
  const refers = name === "id" ? item.type === "item_reference" : item.type === "mcp_approval_response"
  return refers ? undefined : item
}

/** Whether an id only asks how a cache was used, which a request may do without. */
const isHint = ({ path }: KeptId): boolean => path[0] === "diagnostics" && path[1] === "previous_message_id"

/** The ids of a request without which it cannot be answered. */
export const referencesIn = (body: Json, scope: IdScope): ReadonlyArray<string> =>
  keptIds(body, scope).flatMap((found) => (itemOf(found, body) === undefined && !isHint(found) ? [found.id] : []))

/**
 * Replaces the gateway's ids in a request with those of the provider that keeps the things. What is another tenant's, or was
 * never an id of the gateway, does not reach a provider: a reference to it is refused, an item that comes with its content
 * loses its id, and thoughts that only another provider can read are left out.
 */
export const openedRequest = (
  { body, bytes }: Pick<OpenedRequest, "body" | "bytes">,
  scope: IdScope,
  open: (id: string) => OpenedId | undefined
): OpenedRequest | GatewayError => {
  const found = mayHoldIds(bytes) ? keptIds(body, scope) : []
  if (found.length === 0) return { body, bytes, provider: undefined, param: "", known: new Map() }
  const known = new Map<string, string>()
  const changes: Array<Change> = []
  let provider: string | undefined
  let param = ""
  const takes = (opened: OpenedId, { path }: KeptId): boolean => {
    if (provider === undefined) [provider, param] = [opened.provider, path.join(".")]
    return opened.provider === provider
  }
  const replace = ({ id, path }: KeptId, opened: OpenedId) => {
    known.set(opened.id, id)
    changes.push({ path, text: JSON.stringify(opened.id) })
  }
  // What must be kept decides which provider it is.
  for (const one of found) {
    if (one.id === "" || itemOf(one, body) !== undefined || isHint(one)) continue
    const opened = open(one.id)
    if (opened === undefined) return missing(one)
    if (!takes(opened, one)) return elsewhere(one, opened.provider, provider)
    replace(one, opened)
  }
  for (const one of found) {
    const item = itemOf(one, body)
    if (item === undefined && !isHint(one)) continue
    const opened = open(one.id)
    if (opened !== undefined && takes(opened, one)) replace(one, opened)
    else changes.push({ path: one.path, text: item === undefined ? "null" : undefined })
  }
  // Thoughts are of no use to their provider without their id.
  const lost = new Set(
    changes.flatMap(({ path: [, index, name], text }) => (text === undefined && name === "id" ? [Number(index)] : []))
  )
  const items = listIn(body.input)
  const foreign = [...lost].filter((index) => (items[index] as Json).type === "reasoning")
  if (foreign.length > 0 && foreign.length === items.length && textIn(body.previous_response_id) === "") {
    return invalidMember("input", "input: Expected an item that the model can answer")
  }
  for (const index of foreign) changes.push({ path: ["input", index], text: undefined })
  const opened = edited(bytes, editsAt(bytes, changes))
  return { body: parsedJson(utf8Text(opened)) as Json, bytes: opened, provider, param, known }
}
