import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import { TenantId } from "#src/kernel/identifier.ts"
import { rules, rulesOf, type Subject } from "#src/operations/security/rules.ts"

const now = Date.parse("2026-06-01T00:00:00Z")
const daysAgo = (days: number) => DateTime.makeUnsafe(now - days * 86_400_000)

const subject: Subject = {
  kind: "api-key",
  id: "01980a5c-0000-7000-8000-000000000001",
  name: "a key",
  tenantId: TenantId.make("01980a5c-0000-7000-8000-000000000002"),
  owner: "account:ada",
  ownerIsLive: true,
  createdAt: daysAgo(10),
  lastUsedAt: daysAgo(1),
  expiresAt: daysAgo(-60),
  scopesGranted: ["llm:complete"],
  scopesUsed: ["llm:complete"],
  isSuspended: false,
  sharedWith: 0,
  failingSince: null,
  uncappedNanoUsd: 0n,
  isCanary: false
}

const agent: Subject = { ...subject, kind: "agent", expiresAt: null }
const delegation: Subject = { ...subject, kind: "delegation" }

/** For each rule what fires it, with its evidence, and what is just short of that. */
const cases: Readonly<Record<string, { readonly fires: Subject; readonly says: string; readonly spares: Subject }>> = {
  "key-unused-30d": {
    fires: { ...subject, lastUsedAt: daysAgo(30) },
    says: "Last used 2026-05-02",
    spares: { ...subject, lastUsedAt: daysAgo(29) }
  },
  "key-unused-90d": {
    fires: { ...subject, createdAt: daysAgo(90), lastUsedAt: null },
    says: "Made 2026-03-03, never used",
    spares: { ...subject, lastUsedAt: daysAgo(89) }
  },
  "key-expiring-7d": {
    fires: { ...subject, expiresAt: daysAgo(-7) },
    says: "Ends 2026-06-08",
    spares: { ...subject, expiresAt: daysAgo(-8) }
  },
  "key-expiring-30d": {
    fires: { ...subject, expiresAt: daysAgo(-30) },
    says: "Ends 2026-07-01",
    spares: { ...subject, expiresAt: daysAgo(-7) }
  },
  "no-expiry": {
    fires: { ...subject, expiresAt: null },
    says: "Made 2026-05-22, without an end",
    spares: subject
  },
  "age-over-90d": {
    fires: { ...subject, createdAt: daysAgo(90) },
    says: "Made 2026-03-03, 90 days ago",
    spares: { ...subject, createdAt: daysAgo(365) }
  },
  "age-over-365d": {
    fires: { ...subject, createdAt: daysAgo(365) },
    says: "Made 2025-06-01, 365 days ago",
    spares: { ...subject, createdAt: daysAgo(364) }
  },
  "wildcard-scope": {
    fires: { ...subject, scopesGranted: ["llm:*", "agents:read"] },
    says: "Grants llm:*",
    spares: subject
  },
  "over-privileged": {
    fires: { ...subject, createdAt: daysAgo(90), scopesGranted: ["llm:*", "agents:write"] },
    says: "Not used in 90 days: agents:write",
    spares: { ...subject, createdAt: daysAgo(89), scopesGranted: ["agents:write"] }
  },
  "agent-without-live-owner": {
    fires: { ...agent, ownerIsLive: false },
    says: "The owner account:ada has no active account",
    spares: { ...agent, ownerIsLive: false, isSuspended: true }
  },
  "idle-agent-active": {
    fires: { ...agent, lastUsedAt: daysAgo(90) },
    says: "Last used 2026-03-03",
    spares: { ...agent, lastUsedAt: daysAgo(90), isSuspended: true }
  },
  "grant-never-used": {
    fires: { ...delegation, createdAt: daysAgo(30), lastUsedAt: null },
    says: "Made 2026-05-02, never used",
    spares: { ...delegation, createdAt: daysAgo(30), lastUsedAt: daysAgo(30) }
  },
  "grant-older-than-180d": {
    fires: { ...delegation, createdAt: daysAgo(180) },
    says: "Made 2025-12-03, 180 days ago",
    spares: { ...delegation, createdAt: daysAgo(179) }
  },
  "grant-to-suspended-agent": {
    fires: { ...delegation, isSuspended: true },
    says: "The agent that has it is suspended",
    spares: delegation
  },
  "shared-key-thumbprint": {
    fires: { ...subject, kind: "agent-key", sharedWith: 2 },
    says: "The same public key as of 2 other keys",
    spares: { ...subject, kind: "agent-key" }
  },
  "failing-webhook": {
    fires: { ...subject, kind: "webhook", failingSince: daysAgo(1) },
    says: "Deliveries have failed since 2026-05-31",
    spares: { ...subject, kind: "webhook" }
  },
  "provider-keys-unavailable": {
    fires: { ...subject, kind: "identity-provider", failingSince: daysAgo(1) },
    says: "Its keys could not be fetched since 2026-05-31",
    spares: { ...subject, kind: "identity-provider" }
  },
  "canary-touched": {
    fires: { ...subject, kind: "synthetic-principal", isCanary: true },
    says: "Its key was used, last on 2026-05-31",
    spares: { ...subject, kind: "synthetic-principal", isCanary: true, lastUsedAt: null }
  },
  "spend-without-cap": {
    fires: { ...agent, uncappedNanoUsd: 1_500_000_000n },
    says: "Charged 1.5 US dollars in 30 days, and no cap holds for all of it",
    spares: agent
  }
}

describe("the security rule", () => {
  it.each(rules.map((rule) => [rule.id, rule] as const))("%s fires, and not just short of that", (id, rule) => {
    const { fires, says, spares } = cases[id] ?? assert.fail(`no case of ${id}`)
    assert.strictEqual(rule.evidence(fires, now), says)
    assert.isUndefined(rule.evidence(spares, now))
    assert.include(rule.kinds, fires.kind)
  })

  it("is in the report of all, and in another one", () => {
    const others = (["keys", "agents", "access"] as const).flatMap(rulesOf)
    for (const rule of rulesOf("posture")) assert.include(others, rule)
    assert.strictEqual(new Set(rules.map(({ id }) => id)).size, rules.length)
  })
})
