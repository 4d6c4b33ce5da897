import { isValidElement, type ReactElement, type ReactNode, useEffect, useRef, useState } from "react"
import { useSearchParams } from "wouter"
import { useTenantScope } from "../../api/tenant-scope.ts"
import { choicesOf, type Options } from "../forms/form.tsx"
import { Icon } from "../icons.tsx"
import { type Said } from "../parts.tsx"

/** The search of a URL with some members set, and without those that are empty. */
export const withMembers = (search: URLSearchParams, members: Readonly<Record<string, string>>): URLSearchParams => {
  const next = new URLSearchParams(search)
  for (const [name, value] of Object.entries(members)) {
    if (value === "") next.delete(name)
    else next.set(name, value)
  }
  return next
}

/** What is said where a filter leaves nothing. */
export const nothingMatches: Said = ["Nothing matches", "Change or remove a filter."]

/** The filters of a list, which live in the URL; a change of one begins at the first page. */
export const useFilters = <Key extends string>(keys: ReadonlyArray<Key>) => {
  const [search, setSearch] = useSearchParams()
  const values: Partial<Record<Key, string>> = {}
  for (const key of keys) {
    const value = search.get(key)
    if (value !== null && value !== "") values[key] = value
  }
  const set = (key: Key, value: string, options?: { readonly replace: boolean }) =>
    setSearch((before) => withMembers(before, { [key]: value, cursor: "" }), options)
  return { values, set, isFiltered: Object.keys(values).length > 0 }
}

interface Searching {
  /** What is shown in the empty field, where that is not its label. */
  readonly hint?: string
  readonly label: string
  /** Searches; `replace` is whether the search takes the place of the one before it in the history of the browser. */
  readonly onSearch: (value: string, options: { readonly replace: boolean }) => void
  readonly value?: string | undefined
}

/** How long typing pauses before a search begins. */
const pauseMs = 250

/** A search field, which `/` focuses; it searches when typing pauses, and at once when Enter is pressed. */
export const Search = ({ hint, label, onSearch, value = "" }: Searching) => {
  const [text, setText] = useState(value)
  const searched = useRef(value)
  // The search of the URL changes without the field, too, as by the button that goes back.
  useEffect(() => {
    if (value === searched.current) return
    searched.current = value
    setText(value)
  }, [value])
  const search = () => {
    const wanted = text.trim()
    if (wanted === searched.current) return
    const replace = searched.current !== "" && wanted !== ""
    searched.current = wanted
    onSearch(wanted, { replace })
  }
  useEffect(() => {
    const timer = setTimeout(search, pauseMs)
    return () => clearTimeout(timer)
    // A search depends on nothing but the text.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [text])
  return (
    <form
      role="search"
      className="search"
      onSubmit={(event) => {
        event.preventDefault()
        search()
      }}
    >
      <Icon name="search" size={16} />
      <input
        type="search"
        name="search"
        aria-label={label}
        placeholder={hint ?? label}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
    </form>
  )
}

interface Choosing {
  /** Whether it takes the focus when it is shown. */
  readonly isNew?: boolean
  readonly isRequired?: boolean
  readonly label: string
  readonly onChange: (value: string) => void
  readonly options: Options
  readonly value?: string | undefined
}

/** A filter with few values, which are texts themselves or have one; one that is required has no "any". */
export const Choice = ({ isNew = false, isRequired = false, label, onChange, options, value = "" }: Choosing) => (
  <select
    ref={(element) => {
      if (isNew) element?.focus()
    }}
    className={value === "" ? "pill" : "pill on"}
    aria-label={label}
    value={value}
    onChange={(event) => onChange(event.target.value)}
  >
    {isRequired ? null : <option value="">{label}: any</option>}
    {choicesOf(options).map(([value, text]) => (
      <option key={value} value={value}>
        {label}: {text}
      </option>
    ))}
  </select>
)

/** What a list can be filtered by: a member of its query. */
export interface Filter {
  readonly key: string
  readonly label: string
  /** What can be chosen; without, the filter is set by links alone, and can be removed. */
  readonly options?: Options | undefined
  /** What it is where the URL does not say; then `all` stands for every value. */
  readonly initial?: string
  readonly isHidden?: boolean
  /** Whether it is shown only once it is added. */
  readonly isExtra?: boolean
  /** Whether its value is typed. */
  readonly isSearched?: boolean
  /** How a value is shown that cannot be chosen. */
  readonly nameOf?: (value: string) => ReactNode
  readonly removes?: string
  /** What a choice stands for in the URL. */
  readonly toUrl?: (value: string) => string
}

/** The filters of a list, and what is shown between them. */
export type Filters = ReadonlyArray<Filter | ReactElement>

/** The filter of a list whose rows are active or not. */
export const activeFilter: Filter = { key: "active", label: "Active", options: { true: "yes", false: "no" } }

const isFilter = (shown: Filter | ReactElement): shown is Filter => !isValidElement(shown)

/** The query that filters make of the URL. */
export const useFilterQuery = (filters: Filters) => {
  const known = filters.filter(isFilter)
  const { isFiltered, values } = useFilters(known.map(({ key }) => key))
  const initial = known.flatMap(({ initial, key }) => (initial === undefined ? [] : [[key, initial] as const]))
  const chosen = Object.entries({ ...Object.fromEntries(initial), ...values })
  const all = new Set(initial.map(([key]) => key))
  return { isFiltered, query: Object.fromEntries(chosen.filter(([key, value]) => value !== "all" || !all.has(key))) }
}

const isAmong = (options: Options, value: string): boolean => choicesOf(options).some(([known]) => known === value)

interface OfFilter {
  readonly filter: Filter
  readonly isNew?: boolean
}

const OneFilter = ({ filter, isNew = false }: OfFilter) => {
  const { initial, isHidden = false, isSearched = false, key, label, nameOf = String, options, toUrl = String } = filter
  const { set, values } = useFilters([key])
  const scope = useTenantScope()
  const value = values[key] ?? initial
  if (isSearched) return <Search label={label} value={value} onSearch={(value, options) => set(key, value, options)} />
  const isGiven = key === "tenantId" && scope !== undefined
  if (isHidden || (value === undefined && (options === undefined || isGiven))) return null
  // What is no choice, or not yet, can be removed all the same.
  if (options === undefined || (value !== undefined && filter.toUrl === undefined && !isAmong(options, value)))
    return (
      <span className="pill on">
        {label}: {nameOf(value ?? "")}
        <button
          type="button"
          aria-label={filter.removes ?? `Remove the filter on ${label}`}
          onClick={() => set(key, "")}
        >
          ×
        </button>
      </span>
    )
  return (
    <Choice
      label={label}
      isNew={isNew}
      isRequired={initial !== undefined}
      value={value}
      options={options}
      onChange={(value) => set(key, toUrl(value))}
    />
  )
}

/**
 * Shows filters, each as a choice or, where it is set by a link, as what can be removed. Those that few need are shown once they
 * are set or added.
 */
export const FilterChoices = ({ filters }: { readonly filters: Filters }) => {
  const [search] = useSearchParams()
  const [added, setAdded] = useState<ReadonlyArray<string>>([])
  const known = filters.filter(isFilter)
  const isShown = ({ isExtra = false, key }: Filter) => !isExtra || search.has(key) || added.includes(key)
  const others = known.filter((filter) => !isShown(filter) && filter.isHidden !== true)
  return (
    <>
      {filters.map((shown) =>
        !isFilter(shown) ? (
          shown
        ) : isShown(shown) ? (
          <OneFilter key={shown.key} filter={shown} isNew={added.at(-1) === shown.key && !search.has(shown.key)} />
        ) : null
      )}
      {others.length === 0 ? null : (
        <select
          className="pill"
          aria-label="Add a filter"
          value=""
          onChange={(event) => setAdded([...added, event.target.value])}
        >
          <option value="">Add a filter</option>
          {others.map(({ key, label }) => (
            <option key={key} value={key}>
              {label}
            </option>
          ))}
        </select>
      )}
    </>
  )
}
