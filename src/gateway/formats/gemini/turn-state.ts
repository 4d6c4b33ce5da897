import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type Change } from "../../json/json-edits.ts"
import { isSealedState } from "../common-form/turn-state.ts"
import { signedWith, unsignedCall, type WrittenPart } from "./turn-parts.ts"

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

/** The elements of a list, or the one element that stands in its place, with their paths. */
const elementsAt = (value: unknown, at: Path): ReadonlyArray<{ readonly element: Json; readonly at: Path }> =>
  isJson(value)
    ? [{ element: value, at }]
    : Array.isArray(value)
      ? value.flatMap((element: unknown, index) => (isJson(element) ? [{ element, at: [...at, index] }] : []))
      : []

const signatureNames = ["thoughtSignature", "thought_signature"] as const

const wasCalled = (part: Json): boolean => isJson(part.functionCall) || isJson(part.function_call)

/** The changes that remove the states of other providers from a caller's request: Gemini refuses what it did not sign. */
export const withoutSealedStates = ({ contents }: Json): ReadonlyArray<Change> =>
  elementsAt(contents, ["contents"]).flatMap(({ element, at }) => {
    const parts = elementsAt(element.parts, [...at, "parts"])
    const changes = parts.flatMap(({ element: part, at }): ReadonlyArray<Change> => {
      const name = signatureNames.find((one) => isSealedState(part[one]))
      if (name === undefined) return []
      if (wasCalled(part)) return [{ path: [...at, name], text: JSON.stringify(unsignedCall) }]
      return [{ path: part.text === "" ? at : [...at, name], text: undefined }]
    })
    const cut = changes.filter(({ path, text }) => text === undefined && typeof path.at(-1) === "number")
    // A content without parts is none.
    return cut.length > 0 && cut.length === parts.length ? [{ path: at, text: undefined }] : changes
  })
