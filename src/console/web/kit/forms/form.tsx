import { createContext, type FormEvent, type ReactNode, useContext, useEffect, useId, useRef, useState } from "react"
import { Failure } from "../../api/client.ts"
import { faultsIn } from "./validity.ts"

const Cause = createContext<unknown>(undefined)
/** What is wrong with controls before anything is sent, by their ids. */
const Invalid = createContext<ReadonlyMap<string, string>>(new Map())

const faultsOf = (cause: unknown) => (cause instanceof Failure ? cause.faults : [])

/** What a member is about, as the types of problems call it: `scope.agentId` is about an agent, `name` about a name. */
const nounOf = (member: string): string =>
  (member.split(".").at(-1) ?? "")
    .replace(/Ids?$/, "")
    .replace(/([a-z\d])([A-Z])/g, "$1-$2")
    .toLowerCase()

/** Whether a problem without faults is about a member: that there is no such agent is a fault of the agent's id. */
const isAbout = (cause: unknown, member: string): boolean => {
  if (!(cause instanceof Failure) || cause.faults.length > 0 || (cause.status !== 404 && cause.status !== 409))
    return false
  const noun = nounOf(member)
  return noun !== "" && `-${cause.type.split(":").at(-1)}-`.includes(`-${noun}-`)
}

/** What was wrong with a member. */
const messagesOf = (cause: unknown, member: string | undefined): ReadonlyArray<string> =>
  member === undefined || member === ""
    ? []
    : isAbout(cause, member)
      ? [(cause as Failure).message]
      : faultsOf(cause)
          .filter(({ path }) => `${path.join(".")}.`.startsWith(`${member}.`))
          .map(({ message }) => message)

/** Shows the first thing that is wrong, wherever the form was scrolled to. */
const showFault = (form: HTMLFormElement | null): void => {
  const fault =
    form?.querySelector<HTMLElement>("[aria-invalid=true]") ?? form?.querySelector<HTMLElement>("[role=alert]")
  fault?.closest("details")?.setAttribute("open", "")
  fault?.focus({ preventScroll: true })
  fault?.scrollIntoView({ block: "center" })
}

interface Asking {
  readonly actions: ReactNode
  readonly cause?: unknown
  readonly children: ReactNode
  readonly onSubmit: (data: FormData, form: HTMLFormElement) => void
}

/** A form that shows what was wrong with its fields beside them, and everything else above its buttons. */
export const Form = ({ actions, cause, children, onSubmit }: Asking) => {
  const element = useRef<HTMLFormElement>(null)
  const [invalid, setInvalid] = useState<ReadonlyMap<string, string>>(new Map())
  useEffect(() => {
    if (cause instanceof Error) showFault(element.current)
  }, [cause])
  return (
    <Cause value={cause}>
      <Invalid value={invalid}>
        <form
          ref={element}
          noValidate
          onSubmit={(event: FormEvent<HTMLFormElement>) => {
            event.preventDefault()
            const form = event.currentTarget
            const found = faultsIn(form)
            setInvalid(found)
            const [first] = found.keys()
            if (first === undefined) onSubmit(new FormData(form), form)
            else document.getElementById(first)?.focus()
          }}
        >
          <div className="in">
            {children}
            {cause instanceof Error ? (
              <p className="fault" role="alert" tabIndex={-1}>
                {cause.message}
                {faultsOf(cause)
                  .filter(({ path }) => path.length === 0)
                  .map(({ message }) => ` ${message}`)}
              </p>
            ) : null}
          </div>
          <footer>{actions}</footer>
        </form>
      </Invalid>
    </Cause>
  )
}

/** What is wrong with a control before anything is sent, by its id. */
export const useInvalid = (id: string): string | undefined => useContext(Invalid).get(id)

/** What was wrong with a member of the request. */
export const useFaults = (member: string | undefined): ReadonlyArray<string> => messagesOf(useContext(Cause), member)

/** A value to choose, which is its own text or has one. */
export type Option = string | readonly [value: string, text: string]

/** What can be chosen: values in order, or the texts by their values. */
export type Options = ReadonlyArray<Option> | Readonly<Record<string, string>>

const isList = (options: Options): options is ReadonlyArray<Option> => Array.isArray(options)

/** The values and their texts. */
export const choicesOf = (options: Options): ReadonlyArray<readonly [value: string, text: string]> =>
  isList(options)
    ? options.map((option) => (typeof option === "string" ? [option, option] : option))
    : Object.entries(options)

export interface FieldTexts {
  readonly label: string
  readonly hint?: ReactNode
  /** The member of the request that the field fills, for its faults; the field's name when absent. */
  readonly member?: string
}

interface OfControl {
  readonly id: string
  readonly "aria-describedby": string | undefined
  readonly "aria-invalid": boolean
}
interface Labelling extends FieldTexts {
  readonly children: (control: OfControl) => ReactNode
}

/** A label, a control, and what was wrong with it. */
export const Labelled = ({ children, hint, label, member }: Labelling) => {
  const id = useId()
  const invalid = useInvalid(id)
  const refused = useFaults(member)
  const faults = invalid === undefined ? refused : [invalid]
  const isDescribed = faults.length > 0 || hint !== undefined
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": isDescribed ? `${id}-hint` : undefined, "aria-invalid": faults.length > 0 })}
      {isDescribed ? (
        <small id={`${id}-hint`} className={faults.length > 0 ? "fault" : undefined}>
          {faults.length > 0 ? faults.join("; ") : hint}
        </small>
      ) : null}
    </div>
  )
}

type InputAttributes = React.InputHTMLAttributes<HTMLInputElement>
type AreaAttributes = React.TextareaHTMLAttributes<HTMLTextAreaElement>

// Browsers take ASCII alone for an e-mail address, and change its domain: the service says what is wrong with one.
const addressAttributes = { type: "text", inputMode: "email", autoCapitalize: "none", spellCheck: false } as const

export const TextField = ({ hint, label, member, ...attributes }: FieldTexts & InputAttributes) => (
  <Labelled label={label} hint={hint} member={member ?? attributes.name ?? ""}>
    {(own) => <input {...attributes} {...(attributes.type === "email" ? addressAttributes : {})} {...own} />}
  </Labelled>
)

export const TextArea = ({ hint, label, member, ...attributes }: FieldTexts & AreaAttributes) => (
  <Labelled label={label} hint={hint} member={member ?? attributes.name ?? ""}>
    {(own) => <textarea rows={4} {...attributes} {...own} />}
  </Labelled>
)

interface Selecting extends FieldTexts, React.SelectHTMLAttributes<HTMLSelectElement> {
  readonly options: Options
}

/** A choice; each option is its value and what is shown for it. */
export const SelectField = ({ hint, label, member, options, ...attributes }: Selecting) => (
  <Labelled label={label} hint={hint} member={member ?? attributes.name ?? ""}>
    {(own) => (
      <select {...attributes} {...own}>
        {choicesOf(options).map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    )}
  </Labelled>
)

export const CheckField = ({ hint, label, ...attributes }: FieldTexts & InputAttributes) => {
  const id = useId()
  return (
    <div className="check">
      <input id={id} type="checkbox" aria-describedby={hint === undefined ? undefined : `${id}-hint`} {...attributes} />
      <label htmlFor={id}>{label}</label>
      {hint === undefined ? null : <small id={`${id}-hint`}>{hint}</small>}
    </div>
  )
}

/** A field's text, and undefined when it is empty. */
export const textOf = (data: FormData, name: string): string | undefined => {
  const value = data.get(name)
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined
}
