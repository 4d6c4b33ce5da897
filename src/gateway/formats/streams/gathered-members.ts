import { type Json } from "../../../kernel/json/parsed-json.ts"

export type Members = Record<string, unknown>

/** Members that arrive in fragments. */
const pieces = new Set(["content", "refusal", "reasoning", "reasoning_content", "text", "thinking", "signature"])

/** Lists of which each event has the elements that are new. */
const lists = new Set(["annotations", "citations"])

/** Adds members of an event to those that came before. */
export const addPieces = (whole: Members, members: Json): void => {
  for (const [name, value] of Object.entries(members)) {
    const before = whole[name]
    if (pieces.has(name) && typeof before === "string" && typeof value === "string") whole[name] = before + value
    else if (lists.has(name) && Array.isArray(before) && Array.isArray(value)) whole[name] = [...before, ...value]
    else if (value !== null) whole[name] = value
  }
}
