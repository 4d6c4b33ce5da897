import { isJson, type Json, listIn, textIn } from "../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"

interface Cue {
  readonly start: number
  readonly end: number
  readonly text: string
}

const secondsOf = (value: unknown): number => (typeof value === "number" && value > 0 ? value : 0)

/** The parts of an answer with their times; the whole text where it has none. */
const cuesOf = ({ duration, segments, text }: Json): ReadonlyArray<Cue> => {
  const parts = listIn(segments).filter(isJson)
  const all = parts.length > 0 ? parts : [{ start: 0, end: duration, text }]
  return all.map((part) => ({
    start: secondsOf(part.start),
    end: secondsOf(part.end),
    // An arrow is the sign of a time.
    text: textIn(part.text).trim().replaceAll("-->", "->")
  }))
}

const digits = (number: number, length: number): string => String(Math.floor(number)).padStart(length, "0")

const timeOf = (seconds: number, separator: string): string => {
  const millis = Math.round(seconds * 1000)
  const [minutes, rest] = [Math.floor(millis / 60_000), millis % 60_000]
  return `${digits(minutes / 60, 2)}:${digits(minutes % 60, 2)}:${digits(rest / 1000, 2)}${separator}${digits(rest % 1000, 3)}`
}

const timed = ({ end, start, text }: Cue, separator: string): string =>
  `${timeOf(start, separator)} --> ${timeOf(end, separator)}\n${text}\n\n`

/** How the gateway writes an answer whose usage no text has, by the format that is asked for. */
export const renderings = lookupTable<(answer: Json) => string>({
  text: ({ text }) => `${textIn(text)}\n`,
  srt: (answer) =>
    cuesOf(answer)
      .map((cue, index) => `${index + 1}\n${timed(cue, ",")}`)
      .join(""),
  vtt: (answer) =>
    `WEBVTT\n\n${cuesOf(answer)
      .map((cue) => timed(cue, "."))
      .join("")}`
})

/** The format to ask a provider for in the place of one without a usage. */
export const askedFormat = lookupTable<string>({ text: "json", srt: "verbose_json", vtt: "verbose_json" })
