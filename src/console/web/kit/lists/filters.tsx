import { isValidElement, type ReactElement, type ReactNode, useEffect, useId, useRef, useState } from "react"
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
  readonly isRequired?: boolean
  readonly label: string
  readonly onChange: (value: string) => void
  readonly options: Options
  readonly value?: string | undefined
}

/** How many values a choice can have before it is one to type in. */
const mostListed = 25

/** The choices with texts that tell them apart, as a text is chosen by. */
const distinct = (options: Options) => {
  const choices = choicesOf(options)
  const times = Map.groupBy(choices, ([, text]) => text)
  return choices.map(([value, text]) =>
    (times.get(text)?.length ?? 0) > 1 ? ([value, `${text} · ${value.slice(-8)}`] as const) : ([value, text] as const)
  )
}

/** A filter with many values: a part of a text finds it. */
const Typed = ({ isRequired = false, label, onChange, options, value = "" }: Choosing) => {
  const id = useId()
  const [text, setText] = useState<string>()
  const choices = distinct(options)
  const current = choices.find(([known]) => known === value)?.[1] ?? ""
  const like = (typed: string) => choices.filter(([, text]) => text.toLowerCase().includes(typed.toLowerCase()))
  const named = (typed: string) => choices.find(([, text]) => text.toLowerCase() === typed.trim().toLowerCase())
  const finish = () => {
    const typed = text?.trim() ?? ""
    const found = typed === "" ? [] : like(typed)
    if (named(typed) === undefined && found.length === 1) onChange(found[0]![0])
    setText(undefined)
  }
  return (
    <span className={value === "" ? "pill typed" : "pill typed on"}>
      <label htmlFor={`${id}-field`}>{label}:</label>
      <input
        id={`${id}-field`}
        list={id}
        autoComplete="off"
        placeholder={current === "" ? "any" : current}
        value={text ?? current}
        // The whole list is offered, whatever is chosen.
        onFocus={() => setText("")}
        onChange={({ currentTarget: field, nativeEvent }) => {
          const found = named(field.value)
          setText(field.value)
          if (found === undefined) return
          onChange(found[0])
          if ((nativeEvent as InputEvent).inputType !== "insertText") field.blur()
        }}
        onBlur={finish}
        onKeyDown={({ currentTarget, key }) => {
          if (key === "Enter") currentTarget.blur()
        }}
      />
      <datalist id={id}>
        {choices.map(([known, text]) => (
          <option key={known} value={text} />
        ))}
      </datalist>
      {value === "" || isRequired ? (
        <Icon name="down" size={14} />
      ) : (
        <button type="button" aria-label={`Remove the filter on ${label}`} onClick={() => onChange("")}>
          ×
        </button>
      )}
    </span>
  )
}

/** A filter by one of some values, which are texts themselves or have one; one that is required has no "any". */
export const Choice = (choice: Choosing) => {
  const { isRequired = false, label, onChange, options, value = "" } = choice
  const choices = choicesOf(options)
  if (choices.length > mostListed) return <Typed {...choice} />
  return (
    <select
      className={value === "" ? "pill" : "pill on"}
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.target.value)}
    >
      {isRequired ? null : <option value="">{label}: any</option>}
      {choices.map(([value, text]) => (
        <option key={value} value={value}>
          {label}: {text}
        </option>
      ))}
    </select>
  )
}

/** What a list can be filtered by: a member of its query. */
export interface Filter {
  readonly key: string
  readonly label: string
  /** What can be chosen; without, the filter is set by links alone, and can be removed. */
  readonly options?: Options | undefined
  /** What it is where the URL does not say; then `all` stands for every value. */
  readonly initial?: string
  readonly isHidden?: boolean
  /** Whether it is one of those that few need, which are shown together. */
  readonly isExtra?: boolean
  /** Whether its value is typed. */
  readonly isSearched?: boolean
  /** How a value is shown that cannot be chosen. */
  readonly nameOf?: (value: string) => ReactNode
  readonly removes?: string
  /** What a choice stands for in the URL. */
  readonly toUrl?: (value: string) => string
}

/** What else can be chosen among filters; `isOn` is that it is not as it is at first. */
interface Beside {
  readonly isExtra?: boolean
  readonly isOn?: boolean
}

/** The filters of a list, and what is shown between them. */
export type Filters = ReadonlyArray<Filter | ReactElement<Beside>>

/** The filter of a list whose rows are active or not. */
export const activeFilter: Filter = { key: "active", label: "Active", options: { true: "yes", false: "no" } }

const isFilter = (shown: Filter | ReactElement<Beside>): shown is Filter => !isValidElement(shown)

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

const OneFilter = ({ filter }: { readonly filter: Filter }) => {
  const { initial, isHidden = false, isSearched = false, key, label, nameOf = String, options, toUrl = String } = filter
  const { set, values } = useFilters([key])
  const scope = useTenantScope()
  const value = values[key] ?? initial
  if (isSearched) return <Search label={label} value={value} onSearch={(value, options) => set(key, value, options)} />
  const isGiven = key === "tenantId" && scope !== undefined
  if (value === undefined && (isHidden || options === undefined || isGiven)) return null
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
      isRequired={initial !== undefined}
      value={value}
      options={options}
      onChange={(value) => set(key, toUrl(value))}
    />
  )
}

/** The filters that few need, behind a button that counts those that are set. */
const MoreFilters = ({ children, on }: { readonly children: ReactNode; readonly on: number }) => {
  const place = useRef<HTMLDetailsElement>(null)
  const close = () => {
    if (place.current !== null) place.current.open = false
  }
  return (
    <details
      ref={place}
      className="more"
      onBlur={({ currentTarget, relatedTarget }) => {
        if (!currentTarget.contains(relatedTarget)) close()
      }}
      onKeyDown={({ currentTarget, key }) => {
        if (key !== "Escape") return
        close()
        currentTarget.querySelector("summary")?.focus()
      }}
    >
      <summary className={on === 0 ? "pill" : "pill on"}>{on === 0 ? "More filters" : `More filters: ${on}`}</summary>
      <div tabIndex={-1}>{children}</div>
    </details>
  )
}

const show = (shown: Filter | ReactElement<Beside>) =>
  isFilter(shown) ? <OneFilter key={shown.key} filter={shown} /> : shown

const isExtra = (shown: Filter | ReactElement<Beside>) => (isFilter(shown) ? shown : shown.props).isExtra === true

/** Shows filters, each as a choice or, where it is set by a link, as what can be removed; those that few need behind a button. */
export const FilterChoices = ({ filters }: { readonly filters: Filters }) => {
  const [search] = useSearchParams()
  const isOn = (shown: Filter | ReactElement<Beside>) =>
    isFilter(shown) ? search.has(shown.key) : shown.props.isOn === true
  const others = filters.filter(
    (shown) => isExtra(shown) && (isOn(shown) || !isFilter(shown) || shown.isHidden !== true)
  )
  return (
    <>
      {filters.filter((shown) => !isExtra(shown)).map(show)}
      {others.length === 0 ? null : <MoreFilters on={others.filter(isOn).length}>{others.map(show)}</MoreFilters>}
    </>
  )
}
