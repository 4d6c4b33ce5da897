import { useState } from "react"
import { useCall } from "../../api/hooks.ts"
import { Act } from "../../kit/actions.tsx"
import { words } from "../../kit/format.tsx"
import { Labelled } from "../../kit/forms/form.tsx"
import { useCan } from "../../shell/session.tsx"

interface Picking {
  /** What stands for every event. */
  readonly every: ReadonlyArray<string>
  readonly initial?: ReadonlyArray<string> | undefined
  readonly label: string
  /** The member of the body. */
  readonly name: string
}

/** The types of one kind of thing, by the beginning that they share. */
const grouped = (types: ReadonlyArray<string>) =>
  Map.groupBy([...new Set(types)].toSorted(), (type) => type.slice(0, type.lastIndexOf(".") + 1))

/** Chooses types of events: every one, those about a kind of thing, or single ones. */
export const EventTypePicker = ({ every, initial = [], label, name }: Picking) => {
  const [chosen, setChosen] = useState(initial)
  const [isEvery, setEvery] = useState(initial.includes("*") || (every.length === 0 && initial.length === 0))
  const [filter, setFilter] = useState("")
  const known = useCall("cloudEvents.types", {}, { enabled: useCan()("events:read") }).data ?? []
  const groups = grouped(known.map(({ type }) => type))
  const patterns = new Set([...groups.keys()].map((prefix) => `${prefix}*`))
  const others = chosen.filter((type) => type !== "*" && !patterns.has(type) && !known.some((one) => one.type === type))
  const toggle = (type: string, isOn: boolean) =>
    setChosen(isOn ? [...chosen, type] : chosen.filter((one) => one !== type))
  const typed = filter.trim()
  const shown = [...groups].filter(([, types]) => types.some((type) => type.includes(typed.toLowerCase())))
  // Types of events that others publish are known to them alone.
  const isOther = typed.includes(".") && shown.length === 0 && !chosen.includes(typed)
  return (
    <fieldset className="types">
      <input
        type="hidden"
        name={name}
        data-member="json"
        value={JSON.stringify(isEvery ? every : chosen.filter((type) => type !== "*"))}
      />
      <Labelled
        label={label}
        member={name}
        hint={isEvery ? "Every event, including kinds that are added later" : `${chosen.length} selected`}
      >
        {(own) => (
          <select
            {...own}
            value={isEvery ? "every" : "some"}
            onChange={(event) => setEvery(event.target.value === "every")}
          >
            <option value="some">Selected types</option>
            <option value="every">Every event</option>
          </select>
        )}
      </Labelled>
      {isEvery ? null : (
        <>
          <input
            type="search"
            aria-label="Filter event types"
            placeholder="Filter by name, or a type of your own, as com.example.order.*"
            value={filter}
            onChange={(event) => setFilter(event.target.value)}
          />
          {isOther ? (
            <Act
              onClick={() => {
                toggle(typed, true)
                setFilter("")
              }}
            >
              Add {typed}
            </Act>
          ) : null}
          <div className="choices">
            {[...others.map((type) => [type, []] as const), ...shown].map(([prefix, types]) => {
              const pattern = types.length === 0 ? prefix : `${prefix}*`
              const isAll = chosen.includes(pattern)
              const title = types.length === 0 ? prefix : words(prefix.split(".").at(-2) ?? prefix)
              return (
                <div key={prefix} role="group" aria-label={title}>
                  <span className="check">
                    <input
                      id={pattern}
                      type="checkbox"
                      checked={isAll}
                      onChange={(event) => toggle(pattern, event.target.checked)}
                    />
                    <label htmlFor={pattern}>
                      <strong>{title}</strong>
                    </label>
                  </span>
                  {types.map((type) => (
                    <span key={type} className="check" title={type}>
                      <input
                        id={type}
                        type="checkbox"
                        aria-label={type}
                        checked={isAll || chosen.includes(type)}
                        disabled={isAll}
                        onChange={(event) => toggle(type, event.target.checked)}
                      />
                      <label htmlFor={type}>{type.slice(prefix.length)}</label>
                    </span>
                  ))}
                </div>
              )
            })}
          </div>
        </>
      )}
    </fieldset>
  )
}
