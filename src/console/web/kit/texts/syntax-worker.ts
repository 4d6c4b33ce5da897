import { parseAllDocuments } from "yaml"
import { type SyntaxFault, syntaxFaultOf } from "./json-places.ts"

/** What a check is asked for, and what it found: undefined where nothing is wrong. */
export interface SyntaxCheck {
  readonly language: "json" | "yaml"
  readonly text: string
}

const faultOfYaml = (text: string): SyntaxFault | undefined => {
  const options = { merge: true, prettyErrors: true, logLevel: "silent" } as const
  const [error] = parseAllDocuments(text, options).flatMap(({ errors }) => errors)
  return error === undefined ? undefined : { message: error.message.split("\n")[0] ?? error.code, at: error.pos[0] }
}

// The check has a thread of its own, so that typing into a large file stays smooth.
addEventListener("message", ({ data }: MessageEvent<SyntaxCheck>) => {
  const fault = data.language === "json" ? syntaxFaultOf(data.text) : faultOfYaml(data.text)
  postMessage(fault ?? null)
})
