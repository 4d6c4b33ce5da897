import { isJson, type Json, textIn } from "../../../kernel/json/parsed-json.ts"
import { type Change } from "../../json/json-edits.ts"
import { isSealedState } from "../common-form/turn-state.ts"
import { unsignedCall } from "../common-form/turn-state.ts"
import { signedWith, type WrittenPart } from "./turn-parts.ts"

/**
 * The parts of a turn for a caller, with what its provider wants back as signatures: that of the first call, since Google's
 * clients keep it, and else parts without a text.
 */
export const withSealedStates = (
  parts: ReadonlyArray<WrittenPart>,
  states: ReadonlyArray<string>
): ReadonlyArray<WrittenPart> => {
  const called = parts.findIndex(({ functionCall }) => functionCall !== undefined)
  // The states stay in their order.
  const ofCall = called < 0 ? undefined : states.at(-1)
  const others = called < 0 ? states : states.slice(0, -1)
  return [
    ...others.map((state) => ({ thought: true, text: "", thoughtSignature: state })),
    ...parts.map((part, index) => (index === called ? signedWith(part, ofCall) : part))
  ]
}

type Path = Change["path"]

/** The elements of a list with their paths; a single object is read as a list of one, as Google reads it. */
const elementsAt = (value: unknown, at: Path): ReadonlyArray<{ readonly element: Json; readonly at: Path }> =>
  isJson(value)
    ? [{ element: value, at }]
    : Array.isArray(value)
      ? value.flatMap((element: unknown, index) => (isJson(element) ? [{ element, at: [...at, index] }] : []))
      : []

const signatureNames = ["thoughtSignature", "thought_signature"] as const

const wasCalled = (part: Json): boolean => isJson(part.functionCall) || isJson(part.function_call)

const signatureOf = (part: Json): (typeof signatureNames)[number] | undefined =>
  signatureNames.find((one) => part[one] !== undefined)

const isSealedIn = (part: Json): boolean => signatureNames.some((one) => isSealedState(part[one]))

type Placed = ReturnType<typeof elementsAt>[number]

/** Contents in sequence of one role, which are one turn. */
const turnsIn = (contents: ReadonlyArray<Placed>): ReadonlyArray<ReadonlyArray<Placed>> => {
  const turns: Array<Array<Placed>> = []
  for (const content of contents) {
    const last = turns.at(-1)
    if (last?.[0]?.element.role === content.element.role) last?.push(content)
    else turns.push([content])
  }
  return turns
}

/** The change to a part of a turn that another provider's model made; undefined where it stays as it is. */
const changeOf = ({ at, element: part }: Placed): Change | undefined => {
  const name = signatureOf(part)
  const isSealed = isSealedIn(part)
  if (name !== undefined && !isSealed) return undefined
  // A sealed state is longer than this, so that no request grows beyond what was reserved for it.
  if (name !== undefined && wasCalled(part) && textIn(part[name]).length >= unsignedCall.length)
    return { path: [...at, name], text: JSON.stringify(unsignedCall) }
  if (part.thought === true || (isSealed && part.text === "")) return { path: at, text: undefined }
  return name === undefined ? undefined : { path: [...at, name], text: undefined }
}

/**
 * The changes that remove the states of other providers from a caller's request, with the thoughts of their turns: Gemini
 * refuses what it did not sign.
 */
export const withoutSealedStates = ({ contents }: Json): ReadonlyArray<Change> =>
  turnsIn(elementsAt(contents, ["contents"])).flatMap((turn) => {
    const placed = turn.map((content) => ({
      content,
      parts: elementsAt(content.element.parts, [...content.at, "parts"])
    }))
    if (!placed.some(({ parts }) => parts.some(({ element }) => isSealedIn(element)))) return []
    return placed.flatMap(({ content, parts }): ReadonlyArray<Change> => {
      const changes = parts.flatMap((part) => changeOf(part) ?? [])
      const whole = new Set(parts.map(({ at }) => at))
      const cut = changes.filter(({ path }) => whole.has(path))
      // A content without parts is none.
      return cut.length > 0 && cut.length === parts.length ? [{ path: content.at, text: undefined }] : changes
    })
  })
