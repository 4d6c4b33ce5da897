import { parseAllDocuments } from "yaml"

/** What is wrong with a text, and the character where it was noticed. */
export interface SyntaxFault {
  readonly message: string
  readonly at: number | undefined
}

/** What a check is asked for, and what it found: undefined where nothing is wrong. */
export interface SyntaxCheck {
  readonly language: "json" | "yaml"
  readonly text: string
}

const faultOfJson = (text: string): SyntaxFault | undefined => {
  try {
    JSON.parse(text.replace(/^\ufeff/, ""))
    return
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause)
    const at = /position (\d+)/.exec(message)?.[1]
    return { message, at: at === undefined ? undefined : Number(at) }
  }
}

const faultOfYaml = (text: string): SyntaxFault | undefined => {
  const options = { merge: true, prettyErrors: true, logLevel: "silent" } as const
  const [error] = parseAllDocuments(text, options).flatMap(({ errors }) => errors)
  return error === undefined ? undefined : { message: error.message.split("\n")[0] ?? error.code, at: error.pos[0] }
}

// The check has a thread of its own, so that typing into a large file stays smooth.
addEventListener("message", ({ data }: MessageEvent<SyntaxCheck>) => {
  const fault = data.language === "json" ? faultOfJson(data.text) : faultOfYaml(data.text)
  postMessage(fault ?? null)
})
