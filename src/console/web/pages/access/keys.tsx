import { type ReactNode } from "react"
import { type Answer, type Row } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { ConfirmAct, formOf } from "../../kit/forms/operation.tsx"
import { ScopePicker } from "../../kit/forms/scopes.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { Tag } from "../../kit/parts.tsx"
import { Snippets } from "./snippets.tsx"

export type Key = Row<"apiKeys.list">

export const write = "api-keys:write"
const create = formOf("apiKeys.create")
const rotate = formOf("apiKeys.rotate")
const update = formOf("apiKeys.update")

/** The key that was just made, this once. */
export const Made = ({ made, onKept }: { readonly made: Answer<"apiKeys.create">; readonly onKept?: () => void }) => (
  <SecretDialog title={`Key ${made.name}`} what="API key" secret={made.key} onClose={onKept}>
    <Snippets secret={made.key} />
  </SecretDialog>
)

interface OfKey {
  readonly children?: ReactNode
  readonly scopes?: ReadonlyArray<string>
}

/** What a key is called, what it may do, and when it ends. */
export const KeyFields = ({ children, scopes = [] }: OfKey) => (
  <>
    <create.Field label="Name" name="name" placeholder="nightly-import" hint="Who uses it, so that you recognize it" />
    {children}
    <ScopePicker initial={scopes} isRequired />
    <create.Field label="Expires" name="expiresAt" hint="Local time; empty for a key that never expires" />
  </>
)

const ended = ({ status }: Key) => (status === "active" ? undefined : `The key is ${status}`)

export const EditKey = ({ of }: Of<Key>) => (
  <update.Change
    of={of}
    wide
    needs={write}
    unless={of.synthetic ? "The key is that of a synthetic principal" : ended(of)}
  >
    <KeyFields scopes={of.scopes} />
    <p className="soft">Programs keep using the key; other scopes apply within a second.</p>
  </update.Change>
)

export const RotateKey = ({ of }: Of<Key>) => (
  <rotate.Act
    title={`Rotate ${of.name}`}
    action="Rotate"
    needs={write}
    unless={ended(of)}
    input={{ params: { id: of.id } }}
    shows={(made) => <Made made={made} />}
  >
    <p>
      A new key with the same rights replaces <code>{of.start}…</code>. The old one works until the grace period ends.
    </p>
    <rotate.Field label="Grace period in hours" name="graceSeconds" unit={3600} defaultValue={24} required />
  </rotate.Act>
)

export const RevokeKey = ({ of }: Of<Key>) => (
  <ConfirmAct name="apiKeys.revoke" of={of} verb="Revoke" what="key" needs={write} unless={ended(of)}>
    Every program that uses <code>{of.start}…</code> is refused within a second. A revoked key cannot be used again.
  </ConfirmAct>
)

const tones = { active: "ok", revoked: "", expired: "warn" } as const

export const KeyStatus = ({ of: { status } }: Of<Pick<Key, "status">>) => <Tag tone={tones[status]}>{status}</Tag>
