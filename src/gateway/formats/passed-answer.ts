import { type Json } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { type Renaming } from "../json/kept-ids.ts"

const utf8 = new TextEncoder()

/** The bytes of an answer, which is sent as it came where it has no id of what its provider keeps. */
export const renamedAnswer = (given: Uint8Array, answer: Json, rename: Renaming | undefined): Uint8Array => {
  if (rename === undefined) return given
  const text = utf8Text(given)
  const renamed = rename(text, answer)
  return renamed === text ? given : utf8.encode(renamed)
}
