import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type Annotation } from "./domain.ts"

/** A page that a part of a text is based on. */
export interface Citation {
  readonly url: string
  readonly title: string
  /** In UTF-16 code units of the whole text; equal where the part is not known. */
  readonly start: number
  readonly end: number
  /** What the page says. */
  readonly cited: string
}

export const citationsIn = (annotations: ReadonlyArray<Annotation> | undefined): ReadonlyArray<Citation> =>
  (annotations ?? []).flatMap(({ url_citation: given }) => {
    if (given?.url === undefined) return []
    const { content: cited = "", end_index: end = 0, start_index: start = 0, title = "", url } = given
    return [{ url, title, start, end: Math.max(start, end), cited }]
  })

export const annotationOf = ({ cited, end, start, title, url }: Citation): Json => ({
  type: "url_citation",
  url_citation: { url, title, start_index: start, end_index: end, ...(cited === "" ? {} : { content: cited }) }
})

/** A part of a text with the citations of it. */
export interface CitedText {
  text: string
  readonly citations: Array<Citation>
}

/** A text split into parts, each with its citations; those without a known place go to the last part. */
export const citedTexts = (text: string, citations: ReadonlyArray<Citation>): ReadonlyArray<CitedText> => {
  const parts: Array<CitedText> = []
  const others: Array<Citation> = []
  let at = 0
  const upTo = (end: number) => {
    const rest = text.slice(at, end)
    at = end
    const last = parts.at(-1)
    // Anthropic refuses a blank text when it comes back.
    if (rest.trim() === "" && last !== undefined) last.text += rest
    else if (rest !== "") parts.push({ text: rest, citations: [] })
  }
  for (const citation of citations.toSorted((one, other) => one.start - other.start)) {
    const { end, start } = citation
    const last = parts.at(-1)
    if (end > text.length || text.slice(start, end).trim() === "") others.push(citation)
    else if (start < at && last !== undefined) last.citations.push(citation)
    else {
      upTo(start)
      const blank = parts.length === 1 && parts[0]?.text.trim() === "" ? (parts.pop()?.text ?? "") : ""
      parts.push({ text: blank + text.slice(start, end), citations: [citation] })
      at = end
    }
  }
  upTo(text.length)
  parts.at(-1)?.citations.push(...others)
  return parts
}
