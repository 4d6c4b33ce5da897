import { call } from "../../api/client.ts"
import { type Row } from "../../api/operations.ts"
import { TextField } from "../../kit/forms/form.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { Tag } from "../../kit/parts.tsx"

export type User = Row<"trialUsers.list">

export const write = "trial-users:write"
export const nameOf = ({ firstName, lastName }: User) => `${firstName} ${lastName}`

const dayMilliseconds = 86_400_000
const soonDays = 3

/** The whole days until a trial ends; 0 when it is over. */
export const daysLeft = (end: string): number =>
  Math.max(0, Math.ceil((Date.parse(end) - Date.now()) / dayMilliseconds))

/** Whether a trial goes on, ends soon, is over, or was stopped. */
export const TrialState = ({ user: { isActive, trialEndDate } }: { readonly user: User }) => {
  const left = daysLeft(trialEndDate)
  if (!isActive) return <Tag>inactive</Tag>
  if (left === 0) return <Tag tone="bad">over</Tag>
  return left <= soonDays ? <Tag tone="warn">ends soon</Tag> : <Tag tone="ok">active</Tag>
}

/** Moves the end of a trial; one that is over continues from now. */
export const extend = ({ id, trialEndDate }: User, days: number) =>
  call("trialUsers.update", {
    params: { id },
    body: {
      trialEndDate: new Date(Math.max(Date.now(), Date.parse(trialEndDate)) + days * dayMilliseconds).toISOString()
    }
  })

/** By how much a trial is extended. */
export const DaysField = () => (
  <TextField label="Days" name="days" type="number" min={1} max={3650} defaultValue={7} required />
)

const { Field } = formOf("trialUsers.create")

/** Who a trial user is. */
export const PersonFields = () => (
  <>
    <div className="row2">
      <Field label="First name" name="firstName" />
      <Field label="Last name" name="lastName" />
    </div>
    <Field label="E-mail address" name="email" type="email" />
  </>
)
