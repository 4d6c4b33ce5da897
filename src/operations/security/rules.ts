import { DateTime } from "effect"
import { covers } from "../../kernel/authority/capability.ts"
import { usdText } from "../../kernel/usd.ts"
import { type IdentityKind, type InventoryItem, type ReportKind, type RuleId, type Severity } from "./domain.ts"

const dayMillis = 86_400_000

/** What rules know of an identity beyond the inventory. */
export interface Subject extends InventoryItem {
  /** Whether the agent behind it is suspended. */
  readonly isSuspended: boolean
  /** How many other keys have the same public key. */
  readonly sharedWith: number
  /** Since when deliveries to it have failed, or its keys could not be fetched. */
  readonly failingSince: DateTime.Utc | null
  /** What it was charged in the last 30 days while no cap applies to all of its calls, in nano-dollars. */
  readonly uncappedNanoUsd: bigint
  /** Whether it is a trap: using it is the finding. */
  readonly isCanary: boolean
}

export interface Rule {
  readonly id: typeof RuleId.Type
  readonly severity: Severity
  /** The risk of the OWASP Non-Human Identities Top 10 of 2025. */
  readonly owasp: string
  readonly kinds: ReadonlyArray<IdentityKind>
  readonly reports: ReadonlyArray<Exclude<ReportKind, "posture">>
  readonly remedy: string
  /** Why the rule fires; undefined if it does not. */
  evidence(subject: Subject, now: number): string | undefined
}

const offboarding = "NHI1:2025 Improper Offboarding"
const overprivileged = "NHI5:2025 Overprivileged NHI"
const secretLeakage = "NHI2:2025 Secret Leakage"
const insecureAuthentication = "NHI4:2025 Insecure Authentication"
const longLived = "NHI7:2025 Long-Lived Secrets"
const reuse = "NHI9:2025 NHI Reuse"

const day = (moment: DateTime.Utc): string => DateTime.formatIsoDateUtc(moment)
const ageDays = (since: DateTime.Utc, now: number): number => (now - since.epochMilliseconds) / dayMillis

/** For how long it was not used; undefined if it was used within `days`, or is younger than that. */
const unused = ({ createdAt, lastUsedAt }: Subject, now: number, days: number): string | undefined =>
  ageDays(lastUsedAt ?? createdAt, now) < days
    ? undefined
    : lastUsedAt === null
      ? `Made ${day(createdAt)}, never used`
      : `Last used ${day(lastUsedAt)}`

const expiring = ({ expiresAt }: Subject, now: number, fromDays: number, toDays: number): string | undefined => {
  if (expiresAt === null) return undefined
  const left = -ageDays(expiresAt, now)
  return left > fromDays && left <= toDays ? `Ends ${day(expiresAt)}` : undefined
}

const old = ({ createdAt }: Subject, now: number, fromDays: number, toDays: number): string | undefined => {
  const age = ageDays(createdAt, now)
  return age >= fromDays && age < toDays ? `Made ${day(createdAt)}, ${Math.floor(age)} days ago` : undefined
}

const isWild = (scope: string): boolean => scope.split(":").includes("*")

/** The rules, each of which looks at one identity alone. Of two that differ in days alone, at most one fires. */
export const rules: ReadonlyArray<Rule> = [
  {
    id: "key-unused-30d",
    severity: "low",
    owasp: offboarding,
    kinds: ["api-key"],
    reports: ["keys"],
    remedy: "Ask the owner whether it is needed, and revoke it if not.",
    evidence: (subject, now) => (unused(subject, now, 90) === undefined ? unused(subject, now, 30) : undefined)
  },
  {
    id: "key-unused-90d",
    severity: "medium",
    owasp: offboarding,
    kinds: ["api-key"],
    reports: ["keys"],
    remedy: "Revoke it: it was not used for 90 days.",
    evidence: (subject, now) => unused(subject, now, 90)
  },
  {
    id: "key-expiring-7d",
    severity: "high",
    owasp: longLived,
    kinds: ["api-key", "agent-key"],
    reports: ["keys"],
    remedy: "Rotate it now, so that its users do not fail when it ends.",
    evidence: (subject, now) => expiring(subject, now, 0, 7)
  },
  {
    id: "key-expiring-30d",
    severity: "low",
    owasp: longLived,
    kinds: ["api-key", "agent-key"],
    reports: ["keys"],
    remedy: "Plan its rotation.",
    evidence: (subject, now) => expiring(subject, now, 7, 30)
  },
  {
    id: "no-expiry",
    severity: "medium",
    owasp: longLived,
    kinds: ["api-key", "delegation"],
    reports: ["keys", "access"],
    remedy: "Set `expiresAt`, and rotate it before then.",
    evidence: ({ createdAt, expiresAt }) => (expiresAt === null ? `Made ${day(createdAt)}, without an end` : undefined)
  },
  {
    id: "age-over-90d",
    severity: "low",
    owasp: longLived,
    kinds: ["api-key", "agent-key"],
    reports: ["keys"],
    remedy: "Rotate it.",
    evidence: (subject, now) => old(subject, now, 90, 365)
  },
  {
    id: "age-over-365d",
    severity: "high",
    owasp: longLived,
    kinds: ["api-key", "agent-key"],
    reports: ["keys"],
    remedy: "Rotate it: all who could read it within a year may have it.",
    evidence: (subject, now) => old(subject, now, 365, Infinity)
  },
  {
    id: "wildcard-scope",
    severity: "high",
    owasp: overprivileged,
    kinds: ["api-key", "agent", "delegation", "synthetic-principal"],
    reports: ["keys", "agents", "access"],
    remedy: "Name the capabilities that it needs; `scopesUsed` of the inventory has those of the last 90 days.",
    // A canary grants nothing: wide scopes are its bait.
    evidence: ({ isCanary, scopesGranted }) => {
      const wild = isCanary ? [] : scopesGranted.filter(isWild)
      return wild.length === 0 ? undefined : `Grants ${wild.join(", ")}`
    }
  },
  {
    id: "over-privileged",
    severity: "medium",
    owasp: overprivileged,
    kinds: ["api-key", "agent"],
    reports: ["keys", "agents", "access"],
    remedy: "Take away what it has not used in 90 days.",
    evidence: ({ createdAt, scopesGranted, scopesUsed }, now) => {
      if (ageDays(createdAt, now) < 90) return undefined
      const idle = scopesGranted.filter((granted) => !scopesUsed.some((used) => covers(granted, used)))
      return idle.length === 0 ? undefined : `Not used in 90 days: ${idle.join(", ")}`
    }
  },
  {
    id: "agent-without-live-owner",
    severity: "high",
    owasp: offboarding,
    kinds: ["agent"],
    reports: ["agents"],
    remedy: "Name an owner with an active account, or suspend the agent.",
    evidence: ({ isSuspended, owner, ownerIsLive }) =>
      isSuspended || ownerIsLive === true
        ? undefined
        : owner === null
          ? "No owner"
          : `The owner ${owner} has no active account`
  },
  {
    id: "idle-agent-active",
    severity: "medium",
    owasp: offboarding,
    kinds: ["agent"],
    reports: ["agents"],
    remedy: "Suspend or retire it.",
    evidence: (subject, now) => (subject.isSuspended ? undefined : unused(subject, now, 90))
  },
  {
    id: "grant-never-used",
    severity: "low",
    owasp: overprivileged,
    kinds: ["delegation"],
    reports: ["access", "agents"],
    remedy: "Revoke it.",
    evidence: (subject, now) => (subject.lastUsedAt === null ? unused(subject, now, 30) : undefined)
  },
  {
    id: "grant-older-than-180d",
    severity: "medium",
    owasp: longLived,
    kinds: ["delegation"],
    reports: ["access", "agents"],
    remedy: "Ask the person who gave it again, and grant it again with an end.",
    evidence: (subject, now) => old(subject, now, 180, Infinity)
  },
  {
    id: "grant-to-suspended-agent",
    severity: "medium",
    owasp: offboarding,
    kinds: ["delegation"],
    reports: ["access", "agents"],
    remedy: "Revoke it: it would count again once the agent is active.",
    evidence: ({ isSuspended }) => (isSuspended ? "The agent that has it is suspended" : undefined)
  },
  {
    id: "shared-key-thumbprint",
    severity: "critical",
    owasp: reuse,
    kinds: ["agent-key"],
    reports: ["keys", "agents"],
    remedy: "Give each agent a key of its own, and revoke the shared one.",
    evidence: ({ sharedWith }) => (sharedWith === 0 ? undefined : `The same public key as of ${sharedWith} other keys`)
  },
  {
    id: "failing-webhook",
    severity: "medium",
    owasp: offboarding,
    kinds: ["webhook"],
    reports: ["access"],
    remedy: "Mend its receiver, or delete it: the next owner of the address would receive the events.",
    evidence: ({ failingSince }) =>
      failingSince === null ? undefined : `Deliveries have failed since ${day(failingSince)}`
  },
  {
    id: "provider-keys-unavailable",
    severity: "high",
    owasp: insecureAuthentication,
    kinds: ["identity-provider"],
    reports: ["access", "keys"],
    remedy: "Test the provider and mend its address, or disable it: no sign-in uses it, and revoked keys stay unknown.",
    evidence: ({ failingSince }) =>
      failingSince === null ? undefined : `Its keys could not be fetched since ${day(failingSince)}`
  },
  {
    id: "canary-touched",
    severity: "critical",
    owasp: secretLeakage,
    kinds: ["synthetic-principal"],
    reports: ["keys", "access"],
    remedy: "Find out where the key lay and who read it; replace every secret beside it, then reset the canary.",
    evidence: ({ isCanary, lastUsedAt }) =>
      isCanary && lastUsedAt !== null ? `Its key was used, last on ${day(lastUsedAt)}` : undefined
  },
  {
    id: "spend-without-cap",
    severity: "high",
    owasp: overprivileged,
    kinds: ["agent"],
    reports: ["agents", "access"],
    remedy: "Make a cap whose scope has this agent, or all agents.",
    evidence: ({ uncappedNanoUsd }) =>
      uncappedNanoUsd > 0n
        ? `Charged ${usdText(uncappedNanoUsd)} US dollars in 30 days, and no cap holds for all of it`
        : undefined
  }
]

export const ruleById: ReadonlyMap<string, Rule> = new Map(rules.map((rule) => [rule.id, rule]))

/** The rules of a kind of report. */
export const rulesOf = (kind: ReportKind): ReadonlyArray<Rule> =>
  kind === "posture" ? rules : rules.filter(({ reports }) => reports.includes(kind))
