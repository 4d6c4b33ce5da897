import { memo, type RefObject, useCallback, useEffect, useId, useRef, useState } from "react"
import { type SyntaxCheck, type SyntaxFault } from "./syntax-worker.ts"
import { Icon } from "./icons.tsx"

/** The text itself. It keeps its own value and is never shown anew: setting a megabyte takes long. */
const Area = memo(
  ({
    area,
    describedBy,
    initial,
    label,
    onInput
  }: {
    readonly area: RefObject<HTMLTextAreaElement | null>
    readonly describedBy: string
    readonly initial: string
    readonly label: string
    readonly onInput: () => void
  }) => (
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
  )
)

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

/** An editor of a file's text that says what is wrong with JSON and YAML. */
export const Editor = ({
  area,
  initial,
  label,
  name,
  onInput
}: {
  readonly area: RefObject<HTMLTextAreaElement | null>
  readonly initial: string
  readonly label: string
  /** The name of the file, which says what it holds. */
  readonly name: string
  readonly onInput: () => void
}) => {
  const id = useId()
  const { check, fault, language } = useSyntax(name, initial)
  const latest = useRef<() => void>(() => undefined)
  useEffect(() => {
    latest.current = () => {
      check.current(() => area.current?.value ?? "")
      onInput()
    }
  })
  const typed = useCallback(() => latest.current(), [])
  const go = () => {
    const { current } = area
    if (current === null || fault?.at === undefined) return
    current.focus()
    current.setSelectionRange(fault.at, fault.at + 1)
  }
  return (
    <div className="editing">
      <Area area={area} initial={initial} label={label} describedBy={id} onInput={typed} />
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
          <button type="button" className="btn quiet" onClick={go}>
            Show it
          </button>
        )}
      </p>
    </div>
  )
}
