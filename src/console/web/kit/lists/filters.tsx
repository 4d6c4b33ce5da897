import { useSearchParams } from "wouter"
import { Icon } from "../icons.tsx"

/** The filters of a list, which live in the URL; a change of one begins at the first page. */
export const useFilters = <Key extends string>(keys: ReadonlyArray<Key>) => {
  const [search, setSearch] = useSearchParams()
  const values: Partial<Record<Key, string>> = {}
  for (const key of keys) {
    const value = search.get(key)
    if (value !== null && value !== "") values[key] = value
  }
  const set = (key: Key, value: string) =>
    setSearch((before) => {
      const next = new URLSearchParams(before)
      if (value === "") next.delete(key)
      else next.set(key, value)
      next.delete("cursor")
      return next
    })
  return { values, set, isFiltered: Object.keys(values).length > 0 }
}

/** A search field, which `/` focuses; it searches when Enter is pressed or the field is left. */
export const Search = ({
  hint,
  label,
  onSearch,
  value = ""
}: {
  /** What is shown in the empty field, where that is not its label. */
  readonly hint?: string
  readonly label: string
  readonly onSearch: (value: string) => void
  readonly value?: string | undefined
}) => (
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

/** A filter with few values, which are texts themselves or have one; one that is required has no "any". */
export const Choice = ({
  isRequired = false,
  label,
  onChange,
  options,
  value = ""
}: {
  readonly isRequired?: boolean
  readonly label: string
  readonly onChange: (value: string) => void
  readonly options: ReadonlyArray<string | readonly [value: string, text: string]>
  readonly value?: string | undefined
}) => (
  <select
    className={value === "" ? "pill" : "pill on"}
    aria-label={label}
    value={value}
    onChange={(event) => onChange(event.target.value)}
  >
    {isRequired ? null : <option value="">{label}: any</option>}
    {options.map((option) => {
      const [value, text] = typeof option === "string" ? [option, option] : option
      return (
        <option key={value} value={value}>
          {label}: {text}
        </option>
      )
    })}
  </select>
)
