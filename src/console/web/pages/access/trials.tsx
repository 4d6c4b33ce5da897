import { call } from "../../api/client.ts"
import { type Row } from "../../api/operations.ts"

type User = Row<"trialUsers.list">

const dayMilliseconds = 86_400_000
const soonDays = 3

/** The whole days until a trial ends; 0 when it is over. */
export const daysLeft = (end: string): number =>
  Math.max(0, Math.ceil((Date.parse(end) - Date.now()) / dayMilliseconds))

/** Whether a trial goes on, ends soon, is over, or was stopped. */
export const TrialState = ({ user: { isActive, trialEndDate } }: { readonly user: User }) => {
  const left = daysLeft(trialEndDate)
  const [tone, text] = !isActive
    ? ["", "inactive"]
    : left === 0
      ? ["bad", "over"]
      : left <= soonDays
        ? ["warn", "ends soon"]
        : ["ok", "active"]
  return <span className={`tag ${tone}`}>{text}</span>
}

/** Moves the end of a trial; one that is over goes on from now. */
export const extend = ({ id, trialEndDate }: User, days: number) =>
  call("trialUsers.update", {
    params: { id },
    body: {
      trialEndDate: new Date(Math.max(Date.now(), Date.parse(trialEndDate)) + days * dayMilliseconds).toISOString()
    }
  })
