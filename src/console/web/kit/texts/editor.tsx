import { memo, type RefObject, useCallback, useEffect, useId, useImperativeHandle, useRef, useState } from "react"
import { Act } from "../actions.tsx"
import { count } from "../format.tsx"
import { textOf } from "../forms/form.tsx"
import { Icon } from "../icons.tsx"
import { announce } from "../toast.tsx"
import { type SyntaxFault } from "./json-places.ts"
import { withLineEndsOf, withLineFeeds } from "./line-ends.ts"
// A whole import of types leaves nothing behind: the worker's module is for its own thread alone.
import type { SyntaxCheck } from "./syntax-worker.ts"

/** What an editor holds now. */
export interface Editing {
  readonly read: () => string
}

interface OfArea {
  readonly area: RefObject<HTMLTextAreaElement | null>
  readonly describedBy: string
  readonly initial: string
  readonly label: string
  readonly onInput: () => void
}

/** The text itself. It keeps its own value and is never set again: setting much of it takes long. */
const Area = memo(({ area, describedBy, initial, label, onInput }: OfArea) => (
  <textarea
    ref={area}
    className="code editor"
    aria-label={label}
    aria-describedby={describedBy}
    defaultValue={initial}
    onInput={onInput}
    spellCheck={false}
    autoCapitalize="off"
    autoComplete="off"
    wrap="off"
  />
))

const languageOf = (name: string): SyntaxCheck["language"] | undefined => {
  const ending = /\.([^.]+)$/.exec(name)?.[1]?.toLowerCase()
  return ending === "json" ? "json" : ending === "yaml" || ending === "yml" ? "yaml" : undefined
}

const pauseMilliseconds = 300

/** What is wrong with a text; looked for in another thread whenever typing pauses, one text at a time. */
const useSyntax = (name: string, initial: string) => {
  const language = languageOf(name)
  const [fault, setFault] = useState<SyntaxFault | null>(null)
  const check = useRef<(read: () => string) => void>(() => undefined)
  useEffect(() => {
    if (language === undefined) return
    const worker = new Worker(new URL("syntax-worker.ts", import.meta.url), { type: "module" })
    let isBusy = false
    let waiting: (() => string) | undefined
    let timer: ReturnType<typeof setTimeout> | undefined
    const ask = () => {
      const read = waiting
      if (isBusy || read === undefined) return
      waiting = undefined
      isBusy = true
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a worker takes no origin
      worker.postMessage({ language, text: read() } satisfies SyntaxCheck)
    }
    worker.addEventListener("message", ({ data }: MessageEvent<SyntaxFault | null>) => {
      isBusy = false
      setFault(data)
      ask()
    })
    check.current = (read) => {
      waiting = read
      clearTimeout(timer)
      timer = setTimeout(ask, pauseMilliseconds)
    }
    if (initial.trim() !== "") check.current(() => initial)
    return () => {
      clearTimeout(timer)
      worker.terminate()
    }
  }, [language, initial])
  return { language, fault, check }
}

const mostCharacters = 131_072
const partCharacters = 65_536

/** A text in parts that end with a line, so that browsers lay each out fast enough to type into. */
const partsOf = (text: string): Array<string> => {
  if (text.length <= mostCharacters) return [text]
  const parts: Array<string> = []
  for (let from = 0; from < text.length;) {
    const line = text.indexOf("\n", from + partCharacters)
    const to = line === -1 || line > from + mostCharacters ? from + mostCharacters : line + 1
    parts.push(text.slice(from, to))
    from = to
  }
  return parts
}

const linesIn = (text: string): number => text.split("\n").length - 1

interface Editable {
  readonly editing: RefObject<Editing | null>
  readonly initial: string
  readonly label: string
  /** The name of the file, which says what it holds. */
  readonly name: string
  readonly onInput: () => void
}

/** An editor of a file's text that says what is wrong with JSON and YAML; a large file is edited part by part. */
export const Editor = ({ editing, initial, label, name, onInput }: Editable) => {
  const id = useId()
  const area = useRef<HTMLTextAreaElement>(null)
  // A field for text has line feeds alone; each line of the file gets its own end back.
  const [unix] = useState(() => withLineFeeds(initial))
  const parts = useRef<Array<string>>(null)
  const all = (parts.current ??= partsOf(unix))
  const [shown, setShown] = useState(0)
  const selection = useRef<readonly [from: number, to: number]>(undefined)
  const { check, fault, language } = useSyntax(name, unix)

  const read = useCallback(() => parts.current?.join("") ?? "", [])
  useImperativeHandle(editing, () => ({ read: () => withLineEndsOf(initial, read()) }), [initial, read])

  const latest = useRef<() => void>(() => undefined)
  useEffect(() => {
    latest.current = () => {
      if (area.current !== null && parts.current !== null) parts.current[shown] = area.current.value
      check.current(read)
      onInput()
    }
  })
  const typed = useCallback(() => latest.current(), [])

  const select = () => {
    const [from, to] = selection.current ?? [0, 0]
    selection.current = undefined
    area.current?.focus()
    area.current?.setSelectionRange(from, to)
  }
  useEffect(() => {
    if (selection.current !== undefined) select()
  }, [shown])

  /** Shows a place of the whole text, in its part. */
  const show = (at: number, length: number) => {
    let before = 0
    const part = all.findIndex((text) => {
      if (at < before + text.length) return true
      before += text.length
      return false
    })
    const found = part === -1 ? all.length - 1 : part
    const from = part === -1 ? (all.at(-1)?.length ?? 0) : at - before
    selection.current = [from, from + length]
    if (found === shown) select()
    else setShown(found)
  }
  const find = (text: string) => {
    const before = all.slice(0, shown).reduce((sum, part) => sum + part.length, 0)
    const whole = all.join("")
    const after = whole.indexOf(text, before + (area.current?.selectionEnd ?? 0))
    const at = after === -1 ? whole.indexOf(text) : after
    if (at === -1) announce("The file does not have this text")
    else show(at, text.length)
  }

  const firstLine = all.slice(0, shown).reduce((sum, part) => sum + linesIn(part), 1)
  return (
    <div className="editing">
      {all.length === 1 ? null : (
        <div className="acts" role="group" aria-label="Parts of the file">
          <Act
            icon="previous"
            unless={shown === 0 ? "This is the first part" : undefined}
            onClick={() => setShown(shown - 1)}
          >
            Previous part
          </Act>
          <Act
            icon="next"
            unless={shown === all.length - 1 ? "This is the last part" : undefined}
            onClick={() => setShown(shown + 1)}
          >
            Next part
          </Act>
          <small>
            Part {shown + 1} of {all.length}, from line {count(firstLine)}
          </small>
          <form
            className="inline end"
            role="search"
            onSubmit={(event) => {
              event.preventDefault()
              const text = textOf(new FormData(event.currentTarget), "find")
              if (text !== undefined) find(text)
            }}
          >
            <input type="search" name="find" aria-label="Find in the whole file" placeholder="Find in the whole file" />
            <button type="submit" className="btn">
              Find
            </button>
          </form>
        </div>
      )}
      <Area key={shown} area={area} initial={all[shown] ?? ""} label={label} describedBy={id} onInput={typed} />
      <p id={id} className={fault === null ? "soft" : "fault"} role="status">
        {language === undefined ? (
          "Plain text"
        ) : fault === null ? (
          `No fault in the ${language === "json" ? "JSON" : "YAML"}`
        ) : (
          <>
            <Icon name="warning" size={16} /> {fault.message}
          </>
        )}
        {fault?.at === undefined ? null : (
          <button type="button" className="btn quiet" onClick={() => show(fault.at ?? 0, 1)}>
            Show it
          </button>
        )}
      </p>
    </div>
  )
}
