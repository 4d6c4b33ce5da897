import { isValidElement, type ReactElement, type ReactNode } from "react"
import { useSearchParams } from "wouter"
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
  const set = (key: Key, value: string) => setSearch((before) => withMembers(before, { [key]: value, cursor: "" }))
  return { values, set, isFiltered: Object.keys(values).length > 0 }
}

interface Searching {
  /** What is shown in the empty field, where that is not its label. */
  readonly hint?: string
  readonly label: string
  readonly onSearch: (value: string) => void
  readonly value?: string | undefined
}

/** A search field, which `/` focuses; it searches when Enter is pressed or the field is left. */
export const Search = ({ hint, label, onSearch, value = "" }: Searching) => (
  <form
    role="search"
    className="search"
    onSubmit={(event) => {
      event.preventDefault()
      onSearch(String(new FormData(event.currentTarget).get("search") ?? "").trim())
    }}
  >
    <Icon name="search" size={16} />
    <input
      key={value}
      type="search"
      name="search"
      aria-label={label}
      placeholder={hint ?? label}
      defaultValue={value}
    />
  </form>
)

interface Choosing {
  readonly isRequired?: boolean
  readonly label: string
  readonly onChange: (value: string) => void
  readonly options: Options
  readonly value?: string | undefined
}

/** A filter with few values, which are texts themselves or have one; one that is required has no "any". */
export const Choice = ({ isRequired = false, label, onChange, options, value = "" }: Choosing) => (
  <select
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

const OneFilter = ({ filter }: { readonly filter: Filter }) => {
  const { initial, isHidden = false, isSearched = false, key, label, nameOf = String, options, toUrl = String } = filter
  const { set, values } = useFilters([key])
  const value = values[key] ?? initial
  if (isSearched) return <Search label={label} value={value} onSearch={(value) => set(key, value)} />
  if (isHidden || (options === undefined && value === undefined)) return null
  if (options === undefined)
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
      isRequired={initial !== undefined}
      value={value}
      options={options}
      onChange={(value) => set(key, toUrl(value))}
    />
  )
}

/** Shows filters, each as a choice or, where it is set by a link, as what can be removed. */
export const FilterChoices = ({ filters }: { readonly filters: Filters }) =>
  filters.map((shown) => (isFilter(shown) ? <OneFilter key={shown.key} filter={shown} /> : shown))
