import { type ComponentType, type ReactNode, useEffect, useState } from "react"
import { Link, useLocation, useSearchParams } from "wouter"
import { addressOf, curlOf } from "../api/client.ts"
import { type Input, type Operation } from "../api/operations.ts"
import { useRefusal } from "../shell/session.tsx"
import { useDialogs } from "./dialog.tsx"
import { Icon, type IconName } from "./icons.tsx"
import { announce } from "./toast.tsx"

interface Acting {
  readonly children: ReactNode
  readonly icon?: IconName | undefined
  readonly kind?: "" | "main" | "bad" | "quiet" | undefined
  readonly needs?: string | undefined
  readonly onClick?: () => void
  /** The dialog that it opens. */
  readonly opens?: ReactNode
  /** Why it cannot be done now. */
  readonly unless?: string | undefined
}

const without = (search: URLSearchParams, name: string): URLSearchParams => {
  const next = new URLSearchParams(search)
  next.delete(name)
  return next
}

/** Opens the dialog of a page's main button where the URL asks for it, once: a reload does not open it again. */
const Addressed = ({ opens }: { readonly opens: ReactNode }) => {
  const { open } = useDialogs()
  const [search, setSearch] = useSearchParams()
  const isAsked = search.get("create") === "new"
  useEffect(() => {
    if (!isAsked) return
    setSearch((before) => without(before, "create"), { replace: true })
    open(opens)
  }, [isAsked])
  return null
}

/** A button for something that needs a capability; it says which, where the caller lacks it. */
export const Act = ({ children, icon, kind = "", needs, onClick, opens, unless }: Acting) => {
  const { open } = useDialogs()
  const refusal = useRefusal()(needs ?? "")
  const reason =
    needs === undefined || refusal === undefined
      ? unless
      : refusal === "lacking"
        ? `Needs the capability ${needs}`
        : "Only for accounts of the whole installation"
  return (
    <button
      type="button"
      className={`btn ${kind}`}
      aria-disabled={reason !== undefined}
      title={reason}
      onClick={reason === undefined ? (onClick ?? (() => open(opens))) : undefined}
    >
      {icon === undefined ? null : <Icon name={icon} size={16} />}
      {children}
      {kind === "main" && opens !== undefined && reason === undefined ? <Addressed opens={opens} /> : null}
    </button>
  )
}

const copy = async (text: string, what: string): Promise<void> => {
  await navigator.clipboard.writeText(text)
  announce(`${what} copied`)
}

/** What a component about a thing is given. */
export interface Of<Thing> {
  readonly of: Thing
}

/** What can be done with a thing: the buttons about it, or what shows them. */
export type Acts<Thing> = ReadonlyArray<ComponentType<Of<Thing>>> | ((of: Thing) => ReactNode)

export const ActsOf = <Thing,>({ acts, of }: Of<Thing> & { readonly acts: Acts<Thing> }) =>
  typeof acts === "function" ? acts(of) : acts.map((One, at) => <One key={at} of={of} />)

interface Copying {
  readonly text: string
  readonly what: string
  readonly children?: ReactNode
}

/** Copies a text. */
export const Copy = ({ text, what, children = "Copy" }: Copying) => (
  <button type="button" className="btn" onClick={() => void copy(text, what)}>
    <Icon name="copy" size={16} />
    {children}
  </button>
)

interface OfCall<Name extends Operation> {
  readonly name: Name
  readonly input: Input<Name>
}

/** Copies the call behind what is shown as a command. */
export const CopyCurl = <Name extends Operation>({ name, input }: OfCall<Name>) => (
  <button type="button" className="btn quiet" onClick={() => void copy(curlOf(name, input), "Command")}>
    Copy as curl
  </button>
)

interface Saved<Name extends Operation> extends OfCall<Name> {
  readonly text: string
  /** What it has, where the text does not say it. */
  readonly title?: string
}

/** Saves what an operation answers as a file. */
export const Download = <Name extends Operation>({ input, name, text, title }: Saved<Name>) => (
  <a className="btn" href={addressOf(name, input)[1]} download title={title}>
    {text}
  </a>
)

/** A link that looks like a button. */
export const ButtonLink = ({ children, href }: { readonly children: ReactNode; readonly href: string }) => (
  <Link className="btn" href={href}>
    {children}
  </Link>
)

interface Tabbed {
  readonly label: string
  readonly tabs: ReadonlyArray<readonly [title: string, content: ReactNode]>
}

/** Texts to choose from, each for a tab. */
export const Tabs = ({ label, tabs }: Tabbed) => {
  const [chosen, setChosen] = useState(0)
  return (
    <div>
      <div className="tabs" role="tablist" aria-label={label}>
        {tabs.map(([title], index) => (
          <button
            key={title}
            type="button"
            role="tab"
            aria-selected={index === chosen}
            tabIndex={index === chosen ? 0 : -1}
            onClick={() => setChosen(index)}
            onKeyDown={(event) => {
              const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0
              if (step === 0) return
              const next = (index + step + tabs.length) % tabs.length
              setChosen(next)
              const list = event.currentTarget.parentElement
              ;(list?.children[next] as HTMLElement | undefined)?.focus()
            }}
          >
            {title}
          </button>
        ))}
      </div>
      <div role="tabpanel" aria-label={tabs[chosen]?.[0]}>
        {tabs[chosen]?.[1]}
      </div>
    </div>
  )
}

interface Linked {
  readonly label: string
  /** The titles by what the URL says. */
  readonly tabs: Readonly<Record<string, string>>
}

/** The parts of a page, each with an address of its own: `tab` of the URL says which is shown, the first when absent. */
export const TabLinks = ({ label, tabs }: Linked) => {
  const [path] = useLocation()
  const [search] = useSearchParams()
  const chosen = search.get("tab") ?? Object.keys(tabs)[0]
  return (
    <nav className="tabs" aria-label={label}>
      {Object.entries(tabs).map(([key, title], index) => (
        <Link
          key={key}
          href={index === 0 ? path : `${path}?tab=${key}`}
          aria-current={key === chosen ? "page" : undefined}
        >
          {title}
        </Link>
      ))}
    </nav>
  )
}

/** Opens the dialog of the first steps where the URL asks for it, and takes that out of the URL when it is closed. */
export const useFirst = (dialogOf: (onClose: () => void) => ReactNode): void => {
  const [search, setSearch] = useSearchParams()
  const { close, open } = useDialogs()
  useEffect(() => {
    const onClose = () => {
      close()
      setSearch((before) => without(before, "create"), { replace: true })
    }
    if (search.get("create") === "first") open(dialogOf(onClose))
  }, [])
}

/** The time, kept so many seconds exact. */
export const useNow = (seconds: number): number => {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), seconds * 1000)
    return () => clearInterval(timer)
  }, [seconds])
  return now
}
