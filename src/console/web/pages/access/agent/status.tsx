import { type Answer } from "../../../api/operations.ts"
import { Tag } from "../../../kit/parts.tsx"

export type Agent = Answer<"agents.get">

export const write = "agents:write"

const tones = { active: "ok", pending: "warn", suspended: "warn", retired: "", expired: "", revoked: "" } as const

/** The status of an agent, or of something that belongs to one. */
export const Status = ({ of }: { readonly of: keyof typeof tones }) => <Tag tone={tones[of]}>{of}</Tag>

/** Why an agent gets nothing new. */
export const inactive = ({ status }: Agent) => (status === "active" ? undefined : `The agent is ${status}`)

/** The class of a row that counts no more. */
export const rowClass = ({ status }: { readonly status: keyof typeof tones }) =>
  status === "active" || status === "pending" ? undefined : "gone"
