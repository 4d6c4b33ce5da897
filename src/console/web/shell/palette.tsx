import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { Fragment, type ReactNode, useEffect, useState } from "react"
import { useLocation } from "wouter"
import { callPage } from "../api/client.ts"
import { useCall } from "../api/hooks.ts"
import { type Input, type Operation } from "../api/operations.ts"
import { useTenantScope } from "../api/tenant-scope.ts"
import { Dialog } from "../kit/dialog.tsx"
import { Icon, type IconName } from "../kit/icons.tsx"
import { TenantName } from "../kit/names/tenants.tsx"
import { type Route } from "./routes.tsx"
import { signOut, useCaller, useCan } from "./session.tsx"
import { useTenantSwitch } from "./tenant-switch.tsx"
import { applyTheme, themes } from "./theme.ts"

/** What can be chosen: a page, a thing, or something to do. */
interface Entry {
  readonly key: string
  readonly title: string
  readonly icon: IconName
  readonly note: ReactNode
  readonly run: () => void
}

/** What the rows of the lists that are searched have, each some of it. */
interface Found {
  readonly id: string | number
  readonly email?: string | null
  readonly firstName?: string
  readonly lastName?: string
  readonly name?: string
  readonly tenantId?: string | null
}

interface Source {
  readonly icon: IconName
  readonly name: Operation
  readonly needs: string
  /** What one is called. */
  readonly one: string
  readonly to: (found: Found) => string
}

const sources: ReadonlyArray<Source> = [
  { name: "agents.list", needs: "agents:read", one: "Agent", icon: "agent", to: ({ id }) => `/agents/${id}` },
  { name: "apiKeys.list", needs: "api-keys:read", one: "API key", icon: "key", to: ({ id }) => `/api-keys/${id}` },
  { name: "budgetCaps.list", needs: "budgets:read", one: "Cap", icon: "bars", to: ({ id }) => `/caps/${id}` },
  { name: "tenants.list", needs: "tenants:read", one: "Tenant", icon: "building", to: ({ id }) => `/tenants/${id}` },
  {
    name: "accounts.list",
    needs: "accounts:read",
    one: "Account",
    icon: "person",
    to: ({ email, id }) => `/accounts?search=${encodeURIComponent(email ?? id)}`
  },
  {
    name: "trialUsers.list",
    needs: "trial-users:read",
    one: "Trial user",
    icon: "people",
    to: ({ id }) => `/trial-users/${id}`
  },
  {
    name: "applications.list",
    needs: "applications:read",
    one: "Application",
    icon: "grid",
    to: ({ id }) => `/applications/${id}`
  },
  {
    name: "integrations.list",
    needs: "integrations:read",
    one: "Integration",
    icon: "plug",
    to: ({ id }) => `/integrations/${id}`
  }
]

/** What the main buttons of pages do, by the page. */
const makes = [
  ["Create an API key", "/api-keys", "api-keys:write"],
  ["Set a cap", "/caps", "budgets:write"],
  ["Register an agent", "/agents", "agents:write"],
  ["Add a provider", "/gateway", "llm:admin"],
  ["Invite a person", "/accounts", "accounts:write"],
  ["Create a tenant", "/tenants", "tenants:write"],
  ["Add a trial user", "/trial-users", "trial-users:write"],
  ["Create an integration", "/integrations", "integrations:write"]
] as const

const each = 5
const pauseMilliseconds = 150
const uuid = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i

const titleOf = ({ email, firstName, id, lastName, name }: Found): string =>
  name ?? (firstName === undefined ? (email ?? String(id)) : `${firstName} ${lastName}`)

/** Whether every word that is typed is in a text. */
const matches = (typed: string, text: string): boolean =>
  typed
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.toLowerCase().includes(word))

/** A text once typing pauses. */
const usePaused = (text: string): string => {
  const [paused, setPaused] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setPaused(text), pauseMilliseconds)
    return () => clearTimeout(timer)
  }, [text])
  return paused
}

/** Things with a text in their names, and whether the search goes on. */
const useFound = (typed: string) => {
  const may = useCan()
  const text = usePaused(typed.trim())
  const allowed = sources.filter(({ needs }) => may(needs))
  const asked = useQuery({
    queryKey: ["palette", text],
    queryFn: ({ signal }) =>
      Promise.allSettled(
        allowed.map(async (source) => {
          const input = { query: { search: text, limit: each } } as object as Input<Operation>
          const { items } = await callPage(source.name, input, signal)
          return (items as ReadonlyArray<Found>).map((found) => ({ source, found }))
        })
      ),
    enabled: text !== "",
    placeholderData: keepPreviousData
  })
  const models = useCall("llm.models", {}, { enabled: may("llm:read") }).data ?? []
  const answers = text === "" || typed.trim() === "" ? [] : (asked.data ?? [])
  return {
    found: answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : [])),
    isPartial: answers.some(({ status }) => status === "rejected"),
    isSearching: typed.trim() !== "" && (text !== typed.trim() || asked.isFetching),
    models:
      typed.trim() === ""
        ? []
        : models.filter(({ aliases, id }) => matches(typed, [id, ...aliases].join(" "))).slice(0, each)
  }
}

/** Something to do. */
const action = (title: string, icon: IconName, run: () => void): Entry => ({
  key: title,
  title,
  icon,
  note: "Action",
  run
})

/** What the palette shows for a text, and whether more may come. */
const useEntries = (typed: string, pages: ReadonlyArray<Route>, onHelp: () => void) => {
  const [, go] = useLocation()
  const may = useCan()
  const { tenant } = useCaller()
  const scope = useTenantScope()
  const choose = useTenantSwitch()
  const { found, isPartial, isSearching, models } = useFound(typed)
  const shown = pages
    .filter(({ group, title }) => matches(typed, `${title} ${group}`))
    .map(({ group, icon, path, title }): Entry => ({ key: path, title, icon, note: group, run: () => go(path) }))
  const actions = [
    ...makes
      .filter(([, , needs]) => may(needs))
      .map(([title, path]) => action(title, "plus", () => go(`${path}?create=new`))),
    ...themes.map((theme) => action(`Theme: ${theme}`, "theme", () => applyTheme(theme))),
    ...(scope === undefined ? [] : [action("Show all tenants", "building", () => choose(undefined))]),
    action("Keyboard shortcuts", "help", onHelp),
    action("Sign out", "exit", () => void signOut())
  ].filter(({ title }) => matches(typed, title))
  const things = found.flatMap(({ found, source }): ReadonlyArray<Entry> => {
    const { icon, name, one, to } = source
    const title = titleOf(found)
    const entry: Entry = {
      key: `${name} ${found.id}`,
      title,
      icon,
      note:
        tenant === null && typeof found.tenantId === "string" ? (
          <>
            {one} · <TenantName id={found.tenantId} />
          </>
        ) : (
          one
        ),
      run: () => go(to(found))
    }
    if (name !== "tenants.list" || tenant !== null) return [entry]
    const only = { key: `only ${found.id}`, title: `Show ${title} only`, icon, note: "Action" }
    return [entry, { ...only, run: () => choose(String(found.id)) }]
  })
  const id = typed.trim()
  const request: Entry = {
    key: "request",
    title: `Request ${id}`,
    icon: "pulse",
    note: "Request",
    run: () => go(`/requests/${id}`)
  }
  return {
    isPartial,
    isSearching,
    entries: [
      ...shown,
      ...actions,
      ...things,
      ...models.map(({ id }): Entry => ({
        key: `model ${id}`,
        title: id,
        icon: "cube",
        note: "Model",
        run: () => go(`/models?search=${encodeURIComponent(id)}`)
      })),
      ...(uuid.test(id) && may("insights:read") ? [request] : [])
    ]
  }
}

interface OfPalette {
  readonly onClose: () => void
  readonly onHelp: () => void
  readonly pages: ReadonlyArray<Route>
}

/** Jumps to a page or a thing, or does something, by a part of its name. */
export const Palette = ({ onClose, onHelp, pages }: OfPalette) => {
  const [text, setText] = useState("")
  const [chosen, setChosen] = useState(0)
  const { entries, isPartial, isSearching } = useEntries(text, pages, onHelp)
  const at = Math.min(chosen, entries.length - 1)
  const open = (entry: Entry | undefined) => {
    if (entry === undefined) return
    onClose()
    entry.run()
  }
  useEffect(() => {
    document.querySelector(`#palette-${at}`)?.scrollIntoView({ block: "nearest" })
  }, [at])
  return (
    <Dialog title="Jump to" onClose={onClose}>
      <div className="in palette">
        <input
          role="combobox"
          aria-label="Page, item or action"
          aria-expanded={entries.length > 0}
          aria-controls="palette-entries"
          aria-activedescendant={entries.length === 0 ? undefined : `palette-${at}`}
          placeholder="A page, an agent, a key, a model, an action …"
          value={text}
          onChange={(event) => {
            setText(event.target.value)
            setChosen(0)
          }}
          onKeyDown={(event) => {
            const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
            if (step !== 0 && entries.length > 0) {
              event.preventDefault()
              setChosen((at + step + entries.length) % entries.length)
            }
            if (event.key === "Enter") open(entries[at])
          }}
        />
        <div id="palette-entries" role="listbox" aria-label="Results" hidden={entries.length === 0}>
          {entries.map((entry, index) => (
            <div
              key={entry.key}
              id={`palette-${index}`}
              role="option"
              aria-selected={index === at}
              tabIndex={-1}
              onClick={() => open(entry)}
              onKeyDown={undefined}
            >
              <Icon name={entry.icon} />
              <span className="cut">{entry.title}</span>
              <small>{entry.note}</small>
            </div>
          ))}
        </div>
        <p className="soft" role="status">
          {isSearching
            ? "Searching …"
            : isPartial
              ? "Some lists could not be searched. Type again to try once more."
              : entries.length === 0
                ? `Nothing has “${text.trim()}” in its name. Pages, actions, agents, keys, caps, tenants, accounts and models are searched.`
                : ""}
        </p>
      </div>
    </Dialog>
  )
}

/** Pages that a letter after `g` leads to. */
export const chords: Readonly<Record<string, string>> = {
  h: "/",
  c: "/caps",
  v: "/approvals",
  u: "/usage",
  r: "/requests",
  p: "/gateway",
  m: "/models",
  k: "/api-keys",
  a: "/agents",
  f: "/files",
  l: "/audit"
}

const keys = [
  ["go to a page or an item, or run an action", "Ctrl", "K"],
  ["search in this list", "/"],
  ["next row or request, and the one before", "J", "K"],
  ["this help", "?"],
  ["close a dialog", "Esc"],
  ["the next control, the one before", "Tab", "Shift Tab"]
] as const

/** Keyboard shortcuts. */
export const Help = ({ onClose, pages }: { readonly onClose: () => void; readonly pages: ReadonlyArray<Route> }) => {
  const leads = Object.entries(chords).flatMap(([letter, path]) => {
    const page = pages.find((one) => one.path === path)
    return page === undefined ? [] : [[page.title, "G", letter.toUpperCase()] as const]
  })
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <div className="in" tabIndex={0} role="region" aria-label="Keys">
        <dl className="facts">
          {[...keys, ...leads].map(([what, ...pressed]) => (
            <Fragment key={what}>
              <dt>{pressed.flatMap((key) => [<kbd key={key}>{key}</kbd>, " "])}</dt>
              <dd>{what}</dd>
            </Fragment>
          ))}
        </dl>
      </div>
    </Dialog>
  )
}
