import { isJson, listIn, type Json } from "../../../kernel/json/parsed-json.ts"

/** Many vendors take only text in a tool message, so images and files go into a message of the user after the results of a turn. */
export const withImagesBesideTools = (messages: ReadonlyArray<unknown>): ReadonlyArray<unknown> => {
  const out: Array<unknown> = []
  let others: ReadonlyArray<Json> = []
  const show = () => {
    if (others.length > 0) out.push({ role: "user", content: others })
    others = []
  }
  for (const message of messages) {
    if (!isJson(message) || message.role !== "tool") {
      show()
      out.push(message)
      continue
    }
    const parts = listIn(message.content).filter(isJson)
    const texts = parts.flatMap(({ text, type }) => (type === "text" ? [text] : []))
    others = [...others, ...parts.filter(({ type }) => type !== "text")]
    out.push(texts.length === parts.length ? message : Object.assign({}, message, { content: texts.join("\n") }))
  }
  show()
  return out
}
