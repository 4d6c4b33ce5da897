import { Predicate } from "effect"
import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"

/**
 * What sealed states begin with. It is a text in base64 of whole bytes, as Google's SDKs decode what stands for a signature,
 * and so long that no vendor's own signature begins with it.
 */
export const sealedPrefix = "gatewayState"

export const isSealedState = (value: unknown): value is string =>
  typeof value === "string" && value.startsWith(sealedPrefix)

/** Seals what a provider wants back with a turn, and opens what was sealed. */
export interface TurnSeals {
  seal(provider: string, state: ReadonlyArray<unknown>): string
  /** Empty unless the same provider's answer to the same tenant had it. */
  open(provider: string, sealed: string): ReadonlyArray<unknown>
}

type Seal = (state: ReadonlyArray<unknown>) => string

/** An answer or a chunk of the common form, with the state of each choice sealed. */
export const sealedIn = (common: Json, seal: Seal): Json => {
  const choices = listIn(common.choices)
  return choices.some(hasState) ? { ...common, choices: choices.map((choice) => sealedChoice(choice, seal)) } : common
}

const saidMember = ({ delta }: Json) => (delta === undefined ? "message" : "delta")

const hasState = (choice: unknown): choice is Json => {
  const said = isJson(choice) ? choice[saidMember(choice)] : undefined
  return isJson(said) && said.turn_state !== undefined
}

const sealedChoice = (choice: unknown, seal: Seal): unknown => {
  if (!hasState(choice)) return choice
  const member = saidMember(choice)
  const { turn_state: state, ...said } = choice[member] as Json
  const pieces = listIn(state)
  return { ...choice, [member]: pieces.length === 0 ? said : { ...said, turn_state: seal(pieces) } }
}

/** More states than any conversation has; each one takes as long to open as thousands of bytes do to parse. */
const maxOpened = 10_000

/**
 * A request of the common form in which each turn has the state that its provider made of it, and no other. Of too many the
 * latest are opened, since providers require those of the last turns.
 */
export const openedIn = (chat: Json, open: (sealed: string) => ReadonlyArray<unknown>): Json => {
  const known = new Map<string, ReadonlyArray<unknown>>()
  const openOnce = (sealed: string): ReadonlyArray<unknown> => {
    const before = known.get(sealed)
    if (before !== undefined || known.size >= maxOpened) return before ?? []
    const state = open(sealed)
    known.set(sealed, state)
    return state
  }
  const opened = (message: unknown): unknown => {
    if (!isJson(message) || message.turn_state === undefined) return message
    const { turn_state: sealed, ...rest } = message
    // A client may keep the same state in two places.
    const state = [...new Set(listIn(sealed).filter(Predicate.isString))].flatMap(openOnce)
    return state.length === 0 ? rest : { ...rest, turn_state: state }
  }
  return { ...chat, messages: listIn(chat.messages).toReversed().map(opened).toReversed() }
}

/** What Gemini takes for the signature of a call that it did not make itself (Gemini API, "Thought Signatures"). */
export const unsignedCall = "skip_thought_signature_validator"
