import { type ReactNode, useEffect, useRef, useState } from "react"
import { Link, useLocation, useSearch } from "wouter"
import { useConnection } from "../api/connection.ts"
import { queries, useCall } from "../api/hooks.ts"
import { ButtonLink } from "../kit/actions.tsx"
import { Dialog } from "../kit/dialog.tsx"
import { Icon, Mark } from "../kit/icons.tsx"
import { Announcements } from "../kit/toast.tsx"
import { chords, Help, Palette } from "./palette.tsx"
import { type Route, routes } from "./routes.tsx"
import { signOut, useCaller, useCan } from "./session.tsx"
import { TenantSwitch } from "./tenant-switch.tsx"
import { applyTheme, themes, useTheme } from "./theme.ts"

const isCurrent = (path: string, { path: of }: Route): boolean =>
  of === "/" ? path === "/" : path === of || path.startsWith(`${of}/`)

/** How many reservations wait for an approval; shown beside the name of their page. */
const Waiting = () => {
  const { data } = useCall("approvals.list", { query: { limit: 50 } }, { everySeconds: 30 })
  const waiting = data?.items.length ?? 0
  return waiting === 0 ? null : (
    <span className="count" aria-label={`${waiting} waiting`}>
      {data?.nextCursor === null ? waiting : `${waiting}+`}
    </span>
  )
}

const foldedKey = "folded"
const foldedGroups = (): ReadonlyArray<string> =>
  (localStorage.getItem(foldedKey) ?? "").split("\n").filter((group) => group !== "")

const Navigation = ({ pages }: { readonly pages: ReadonlyArray<Route> }) => {
  const [path] = useLocation()
  const [folded, setFolded] = useState(foldedGroups)
  const list = useRef<HTMLDivElement>(null)
  useEffect(() => {
    list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" })
  }, [path])
  const fold = (group: string) => {
    const next = folded.includes(group) ? folded.filter((name) => name !== group) : [...folded, group]
    localStorage.setItem(foldedKey, next.join("\n"))
    setFolded(next)
  }
  const groups = Map.groupBy(
    pages.filter(({ group }) => group !== undefined),
    ({ group }) => group ?? ""
  )
  return (
    <div ref={list} className="groups">
      {Array.from(groups, ([group, members]) => (
        <div key={group}>
          {group === "" ? null : (
            <h2>
              <button type="button" aria-expanded={!folded.includes(group)} onClick={() => fold(group)}>
                {group}
                <Icon name="down" size={14} />
              </button>
            </h2>
          )}
          {members
            // The page that is shown stays in sight.
            .filter((page) => !folded.includes(group) || isCurrent(path, page))
            .map((page) => (
              <Link
                key={page.path}
                href={page.path}
                aria-current={isCurrent(path, page) ? "page" : undefined}
                onPointerEnter={() => void page.load()}
              >
                <Icon name={page.icon} />
                {page.title}
                {page.path === "/approvals" ? <Waiting /> : null}
              </Link>
            ))}
        </div>
      ))}
    </div>
  )
}

/** Says that what is shown may be old, while the service cannot be reached. */
const ConnectionNote = () => {
  const connection = useConnection()
  const wasConnected = useRef(true)
  useEffect(() => {
    if (connection === "connected" && !wasConnected.current) void queries.invalidateQueries()
    wasConnected.current = connection === "connected"
  }, [connection])
  return connection === "connected" ? null : (
    <div className="banner" role="alert">
      <Icon name="warning" size={16} />
      <span>
        {connection === "offline" ? "You are offline." : "The service cannot be reached."} What is shown may be out of
        date, and nothing can be saved.
      </span>
      <button type="button" className="btn" onClick={() => void queries.invalidateQueries()}>
        Try again
      </button>
    </div>
  )
}

const Account = () => {
  const { account, principal, tenant } = useCaller()
  const theme = useTheme()
  return (
    <>
      <button type="button" className="btn quiet" popoverTarget="account">
        <Icon name="person" />
        <span className="wide">{account?.name ?? principal}</span>
        <span className="hidden">Account</span>
      </button>
      <div id="account" popover="auto" className="menu">
        <p>
          <strong>{account?.name ?? principal}</strong>
          <br />
          <small>{account?.email}</small>
          <br />
          <small>{tenant === null ? "The whole installation" : `Tenant ${tenant.name}`}</small>
        </p>
        <label htmlFor="theme">Theme</label>
        <select
          id="theme"
          value={theme}
          onChange={(event) => applyTheme(themes.find((name) => name === event.target.value) ?? "system")}
        >
          {themes.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        {account === null ? null : <ButtonLink href="/account">Your account</ButtonLink>}
        <button type="button" className="btn" onClick={() => void signOut()}>
          Sign out
        </button>
      </div>
    </>
  )
}

type Overlay = "palette" | "help" | "menu" | undefined

/** The frame of every page: navigation, jumping, the account. */
export const Shell = ({ children }: { readonly children: ReactNode }) => {
  const may = useCan()
  const [path, go] = useLocation()
  const search = useSearch()
  const [overlay, setOverlay] = useState<Overlay>()
  const close = () => setOverlay(undefined)
  const { tenant } = useCaller()
  const pages = routes.filter(
    ({ group, isOfInstallation = false, needs }) =>
      group !== undefined && (needs === undefined || may(needs)) && !(isOfInstallation && tenant !== null)
  )

  const isLeading = useRef(false)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping =
        event.target instanceof Element && event.target.closest("input, textarea, select, dialog") !== null
      const isPlain = !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey
      const led = isLeading.current && isPlain ? pages.find(({ path }) => path === chords[event.key]) : undefined
      isLeading.current = isPlain && event.key === "g" && !isLeading.current
      if (led !== undefined) {
        // The letter is of this, and of nothing that a page does by it.
        event.stopImmediatePropagation()
        go(led.path)
        return
      }
      if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault()
        setOverlay("palette")
      } else if (!isTyping && event.key === "?") setOverlay("help")
      else if (!isTyping && event.key === "/") {
        const field = document.querySelector<HTMLInputElement>("main input[type=search]")
        if (field !== null) event.preventDefault()
        field?.focus()
      }
    }
    addEventListener("keydown", onKey, { capture: true })
    return () => removeEventListener("keydown", onKey, { capture: true })
  })

  useEffect(() => setOverlay((current) => (current === "menu" ? undefined : current)), [path, search])

  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <nav className="side" aria-label="Main">
        <Link className="brand" href="/">
          <Mark />
          Application Manager
        </Link>
        <Navigation pages={pages} />
      </nav>
      <div>
        <header className="top">
          <button type="button" className="btn quiet icon narrow" aria-label="Menu" onClick={() => setOverlay("menu")}>
            <Icon name="menu" />
          </button>
          <TenantSwitch />
          <button type="button" className="find" onClick={() => setOverlay("palette")}>
            <Icon name="search" size={16} />
            <span className="cut">Search, or jump to</span>
            <kbd>Ctrl K</kbd>
          </button>
          <Account />
        </header>
        <ConnectionNote />
        <main id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      {overlay === "palette" ? <Palette pages={pages} onClose={close} onHelp={() => setOverlay("help")} /> : null}
      {overlay === "help" ? <Help pages={pages} onClose={close} /> : null}
      {overlay === "menu" ? (
        <Dialog title="Pages" onClose={close}>
          <nav className="side drawer" aria-label="Pages">
            <Navigation pages={pages} />
          </nav>
        </Dialog>
      ) : null}
      <Announcements />
    </div>
  )
}
