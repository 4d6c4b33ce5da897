import { type ReactNode, useEffect, useState } from "react"
import { Link, useLocation, useSearch } from "wouter"
import { call } from "../api/client.ts"
import { useCall } from "../api/hooks.ts"
import { ButtonLink } from "../kit/actions.tsx"
import { Dialog } from "../kit/dialog.tsx"
import { Icon, Mark } from "../kit/icons.tsx"
import { Announcements } from "../kit/toast.tsx"
import { Help, Palette } from "./palette.tsx"
import { type Route, routes } from "./routes.tsx"
import { forgetSession, useCaller, useCan } from "./session.tsx"
import { applyTheme, chosenTheme, themes } from "./theme.ts"

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

const Navigation = ({ pages }: { readonly pages: ReadonlyArray<Route> }) => {
  const [path] = useLocation()
  const groups = Map.groupBy(
    pages.filter(({ group }) => group !== undefined),
    ({ group }) => group ?? ""
  )
  return Array.from(groups, ([group, members]) => (
    <div key={group}>
      {group === "" ? null : <h2>{group}</h2>}
      {members.map((page) => (
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
  ))
}

const signOut = async () => {
  await call("auth.logout", {}).catch(() => undefined)
  forgetSession()
}

const Account = () => {
  const { account, principal, tenant } = useCaller()
  const [theme, setTheme] = useState(chosenTheme)
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
          onChange={(event) => {
            const next = themes.find((name) => name === event.target.value) ?? "system"
            setTheme(next)
            applyTheme(next)
          }}
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
  const { tenant } = useCaller()
  const [path] = useLocation()
  const search = useSearch()
  const [overlay, setOverlay] = useState<Overlay>()
  const close = () => setOverlay(undefined)
  const pages = routes.filter(({ group, needs }) => group !== undefined && (needs === undefined || may(needs)))

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping =
        event.target instanceof Element && event.target.closest("input, textarea, select, dialog") !== null
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
    addEventListener("keydown", onKey)
    return () => removeEventListener("keydown", onKey)
  }, [])

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
          <span className="wide">{tenant === null ? "All tenants" : tenant.name}</span>
          <button type="button" className="find" onClick={() => setOverlay("palette")}>
            <Icon name="search" size={16} />
            Jump to a page
            <kbd>Ctrl K</kbd>
          </button>
          <Account />
        </header>
        <main id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      {overlay === "palette" ? <Palette pages={pages} onClose={close} /> : null}
      {overlay === "help" ? <Help onClose={close} /> : null}
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
