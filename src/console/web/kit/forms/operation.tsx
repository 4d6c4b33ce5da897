import { createContext, type ReactNode, useContext } from "react"
import declared from "virtual:members"
import { call } from "../../api/client.ts"
import { type Answer, type Input, type Operation, type Payload } from "../../api/operations.ts"
import { Act } from "../actions.tsx"
import { type IconName } from "../icons.tsx"
import { AskDialog, type Asked } from "./ask.tsx"
import { CheckField, type FieldTexts, type Options, SelectField, TextArea, TextField } from "./form.tsx"
import { bodyOf, isNeeded, localOf, type Member, type Members, valueAt } from "./members.ts"

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
const OperationDialog = <Name extends Operation>({ body, input, name, of, send, ...asked }: OfOperation<Name>) => {
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

/** The button of a dialog. */
export interface Button {
  readonly button?: "" | "main" | "bad" | undefined
  readonly icon?: IconName | undefined
  /** The text on it, where that is not the title or verb of the dialog. */
  readonly label?: string | undefined
  readonly needs?: string | undefined
  readonly unless?: string | undefined
}

/** What a thing is after each verb. */
const states = {
  Abort: "aborted",
  Activate: "active",
  Complete: "completed",
  Deactivate: "inactive",
  Delete: "deleted",
  Disable: "disabled",
  Enable: "active",
  End: "ended",
  Pause: "paused",
  Reject: "rejected",
  Resume: "active",
  Retire: "retired",
  Revoke: "revoked",
  "Roll back": "rolled back",
  Suspend: "suspended"
} as const
type Verb = keyof typeof states

/** A thing that is changed or ended. */
interface Thing {
  readonly id: string | number
  readonly name?: string | null
}

type Kept = "action" | "body" | "children" | "input" | "of" | "title"

interface Confirmed<Name extends Operation> extends Omit<OfOperation<Name>, Kept>, Button {
  readonly action?: string
  /** What is shown below what it means. */
  readonly below?: ReactNode
  /** The name of the thing in the texts; that of the thing itself, where it has one. */
  readonly called?: string | null | undefined
  /** What it means. */
  readonly children: ReactNode
  readonly title?: string
  readonly verb: Verb
  /** What kind of thing it is. */
  readonly what: string
}

/** It is about a thing, whose id is all that the call needs, or says what that needs. */
type OfConfirm<Name extends Operation> = Confirmed<Name> &
  (
    | { readonly input?: undefined; readonly of: Thing }
    | { readonly input: Input<Name>; readonly of?: Thing | undefined }
  )

/** A button for what ends something or cannot be undone, and the dialog that asks before, naming it. */
export const ConfirmAct = <Name extends Operation>({ input, of, ...confirm }: OfConfirm<Name>) => {
  const { below, button = "bad", called = of?.name, children, label, needs, unless, verb, what, ...asked } = confirm
  const { body, ...rest }: { readonly body?: unknown; readonly params?: object | undefined } = input ?? {
    params: { id: of?.id }
  }
  const dialog = (
    <OperationDialog
      kind="bad"
      title={`${verb} ${called ?? `the ${what}`}`}
      action={`${verb} the ${what}`}
      done={`${called ?? `The ${what}`} is ${states[verb]}`}
      {...asked}
      body={body as Made<Name>}
      input={rest as Omit<Input<Name>, "body">}
    >
      <p>{children}</p>
      {below}
    </OperationDialog>
  )
  return (
    <Act kind={button} needs={needs} unless={unless} opens={dialog}>
      {label ?? verb}
    </Act>
  )
}

interface OfSwitch<Name extends Operation> extends Omit<Confirmed<Name>, "children" | "verb"> {
  /** What is written; the status of the thing, where that is all. */
  readonly body?: (isOn: boolean) => Payload<Name>
  readonly headers?: Input<Name>["headers"]
  readonly of: Thing
  readonly isOn: boolean
  readonly off?: Verb
  readonly on?: Verb
  /** What it means to switch it off, and on again. */
  readonly meaning: readonly [off: ReactNode, on: ReactNode]
}

/** The button for the one of two changes that can be made now, of which each undoes the other. */
export const SwitchAct = <Name extends Operation>({ isOn, meaning, of, ...given }: OfSwitch<Name>) => {
  const { body, headers, off = "Suspend", on = "Activate", unless, ...confirm } = given
  const verb = isOn ? off : on
  const inputOf = (isOn: boolean, headers: Readonly<Record<string, string>> | undefined) => {
    const written = body?.(isOn) ?? { status: states[isOn ? on : off] }
    return { params: { id: of.id }, body: written, headers } as object as Input<Name>
  }
  // What was changed since then is not taken back with it.
  const tagOf = (changed: { readonly version?: number }) =>
    headers === undefined || changed.version === undefined ? undefined : { "if-match": `"${changed.version}"` }
  return (
    <ConfirmAct
      button={isOn ? "bad" : ""}
      kind={isOn ? "bad" : "main"}
      unless={isOn ? unless : undefined}
      undo={(changed) => () => call(confirm.name, inputOf(isOn, tagOf(changed as { readonly version?: number })))}
      {...confirm}
      of={of}
      input={inputOf(!isOn, headers)}
      verb={verb}
    >
      {meaning[isOn ? 0 : 1]}
    </ConfirmAct>
  )
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
  readonly options?: Options | undefined
  /** As many lines of text. */
  readonly rows?: number
  /** How many units of the member are one of what is shown: 3600 of seconds for hours. */
  readonly unit?: number
}
type FieldProps<Name extends string> = OfMember<Name> &
  Omit<React.InputHTMLAttributes<HTMLInputElement>, "name"> & { readonly ref?: never }

/** The field of a member: its control, its limits and whether it must be filled come from the schema of the operation. */
export const Field = (field: FieldProps<string>) => {
  const { hint, isExact = false, label, name, options, rows, unit = 1, ...given } = field
  const { members, of } = useContext(Body)
  const member = members[name]
  if (member === undefined) throw new Error(`The operation takes no ${name}.`)
  const current = valueAt(of, name)
  const texts = { hint, label, name, "data-member": isExact ? "exact" : "text", "data-unit": unit }
  const isMoment = member.kind === "date-time" && typeof current === "string"
  const initial = isMoment ? localOf(current) : initialOf(current, unit, rows === undefined ? ", " : "\n")
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

type Given<Name extends Operation> = Omit<OfOperation<Name>, "name">
type OfAct<Name extends Operation> = Given<Name> & Button
type OfChange<Name extends Operation> = Partial<OfAct<Name>> & {
  readonly needs: string
  readonly of: Thing
}

/** The dialog of an operation, buttons that open it, and the fields of its body, which are named as the operation names them. */
export const formOf = <Name extends Operation>(name: Name) => {
  const Dialog = (given: Given<Name>) => <OperationDialog name={name} {...given} />
  const DialogAct = ({ button, icon, label, needs, unless, ...given }: OfAct<Name>) => (
    <Act kind={button} icon={icon} needs={needs} unless={unless} opens={<Dialog {...given} />}>
      {label ?? given.title}
    </Act>
  )
  return {
    /** A button with the verb of its dialog, where it has no label of its own. */
    Act: (given: OfAct<Name>) => <DialogAct label={given.action} {...given} />,
    /** The button that changes a thing, which has an id and may have a name. */
    Change: (given: OfChange<Name>) => (
      <DialogAct
        label="Change"
        title={`Change ${given.of.name}`}
        action="Save"
        done={`${given.of.name} is changed`}
        input={{ params: { id: given.of.id } } as object as Omit<Input<Name>, "body">}
        {...given}
      />
    ),
    Dialog,
    Field: Field as (given: FieldProps<Path<Payload<Name>>>) => React.ReactNode,
    /** The button that makes a thing, which is the main one of a page. */
    Make: (given: OfAct<Name>) => <DialogAct button="main" icon="plus" {...given} />
  }
}
