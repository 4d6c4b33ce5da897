import { createContext, useContext } from "react"
import declared from "virtual:members"
import { call } from "../../api/client.ts"
import { type Answer, type Input, type Operation, type Payload } from "../../api/operations.ts"
import { AskDialog, type Asked } from "./ask.tsx"
import { CheckField, type FieldTexts, type Option, SelectField, TextArea, TextField } from "./form.tsx"
import { bodyOf, isNeeded, type Member, type Members, valueAt } from "./members.ts"

const members: Readonly<Record<string, Members>> = declared

/** The body that the fields of a form are members of, and what is changed with it. */
const Body = createContext<{ readonly members: Members; readonly of?: object | undefined }>({ members: {} })

type Made<Name extends Operation> = Partial<Payload<Name>>

interface OfOperation<Name extends Operation> extends Asked<Answer<Name>> {
  /** What the fields leave open, or what is made of what they say. */
  readonly body?: Made<Name> | ((made: Made<Name>, data: FormData) => Made<Name> | Promise<Made<Name>>)
  readonly input?: Omit<Input<Name>, "body">
  readonly name: Name
  /** What is done with the body, where that is not one call. */
  readonly send?: (body: Made<Name>, data: FormData) => Promise<unknown>
  /** What is changed: the fields begin with its members. */
  readonly of?: object | undefined
}

/** A dialog that calls an operation with what its fields say. */
export const OperationDialog = <Name extends Operation>({
  body,
  input,
  name,
  of,
  send,
  ...asked
}: OfOperation<Name>) => {
  const known = members[name]
  return (
    <Body value={{ members: known ?? {}, of }}>
      <AskDialog
        {...asked}
        submit={async (form) => {
          const said = bodyOf(form, known ?? {}, of) as Made<Name>
          const made = typeof body === "function" ? await body(said, new FormData(form)) : { ...body, ...said }
          if (send !== undefined) return (await send(made, new FormData(form))) as Answer<Name>
          return call(name, (known === undefined ? { ...input } : { ...input, body: made }) as object as Input<Name>)
        }}
      />
    </Body>
  )
}

/** Asks before something that ends or cannot be undone, naming it. */
export const Confirm = <Name extends Operation>({
  input,
  ...asked
}: OfOperation<Name> & { readonly input: Input<Name> }) => {
  const { body, ...rest }: { readonly body?: unknown } = input
  return <OperationDialog kind="bad" {...asked} body={body as Made<Name>} input={rest as Omit<Input<Name>, "body">} />
}

/** What a control says of itself, by the member that it fills. */
const attributesOf = ({ kind, max, maxLength, min }: Member, unit: number) => {
  switch (kind) {
    case "integer":
    case "number": {
      const isWhole = kind === "integer"
      return {
        type: "number",
        min: min === undefined ? undefined : isWhole ? Math.ceil(min / unit) : Math.floor(min / unit),
        max: max === undefined || max >= Number.MAX_SAFE_INTEGER ? undefined : max / unit,
        ...(isWhole ? {} : { step: "any" })
      }
    }
    case "date-time":
      return { type: "datetime-local" }
    case "uri":
      return { type: "url", maxLength }
    default:
      return { maxLength }
  }
}

const initialOf = (value: unknown, unit: number, separator: string): string | number | undefined =>
  Array.isArray(value)
    ? value.join(separator)
    : typeof value === "number"
      ? value / unit
      : value === null || value === undefined
        ? undefined
        : String(value)

type Path<Body> = Body extends unknown
  ? (keyof Body & string) | { [Key in keyof Body & string]: `${Key}.${string}` }[keyof Body & string]
  : never

interface OfMember<Name extends string> extends FieldTexts {
  /** The path of the member in the body. */
  readonly name: Name
  /** Whether spaces around it belong to it. */
  readonly isExact?: boolean
  readonly options?: ReadonlyArray<Option> | undefined
  /** As many lines of text. */
  readonly rows?: number
  /** How many units of the member are one of what is shown: 3600 of seconds for hours. */
  readonly unit?: number
}
type FieldProps<Name extends string> = OfMember<Name> &
  Omit<React.InputHTMLAttributes<HTMLInputElement>, "name"> & { readonly ref?: never }

/** The field of a member: its control, its limits and whether it must be filled come from the schema of the operation. */
export const Field = ({
  hint,
  isExact = false,
  label,
  name,
  options,
  rows,
  unit = 1,
  ...given
}: FieldProps<string>) => {
  const { members, of } = useContext(Body)
  const member = members[name]
  if (member === undefined) throw new Error(`The operation takes no ${name}.`)
  const current = valueAt(of, name)
  const texts = { hint, label, name, "data-member": isExact ? "exact" : "text", "data-unit": unit }
  const initial = initialOf(current, unit, rows === undefined ? ", " : "\n")
  const choices = options ?? member.options
  const { className, defaultValue = initial, required = isNeeded(member, current) } = given
  if (choices !== undefined) {
    const { disabled } = given
    return (
      <SelectField {...texts} className={className} disabled={disabled} defaultValue={defaultValue} options={choices} />
    )
  }
  if (member.kind === "boolean") return <CheckField {...texts} defaultChecked={current === true} {...given} />
  if (rows !== undefined) {
    const { placeholder, spellCheck } = given
    return <TextArea {...texts} {...{ className, defaultValue, placeholder, required, rows, spellCheck }} />
  }
  return (
    <TextField {...texts} {...attributesOf(member, unit)} {...given} defaultValue={defaultValue} required={required} />
  )
}

/** The dialog of an operation and the fields of its body, which are named as the operation names them. */
export const formOf = <Name extends Operation>(name: Name) => ({
  Dialog: (given: Omit<OfOperation<Name>, "name">) => <OperationDialog name={name} {...given} />,
  Field: Field as (given: FieldProps<Path<Payload<Name>>>) => React.ReactNode
})
