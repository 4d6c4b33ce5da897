import { Link } from "wouter"
import { Copy, type Of } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { Chips } from "../../kit/forms/scopes.tsx"
import { Named, PrincipalName } from "../../kit/names/names.tsx"
import { TenantName } from "../../kit/names/tenants.tsx"
import { Card, DetailPage } from "../../kit/parts.tsx"
import { EditKey, type Key, KeyStatus, RevokeKey, RotateKey } from "./keys.tsx"
import { Snippets } from "./snippets.tsx"
import { CapsCard, SpendCard } from "./spend.tsx"

const CopyId = ({ of: { id } }: Of<Key>) => (
  <Copy text={id} what="Id">
    Copy id
  </Copy>
)

/** One key: what it may do, what it costs, and how to call with it. */
export default () => (
  <DetailPage
    name="apiKeys.get"
    entity="ApiKey"
    what="API key"
    lead={(key) => (
      <>
        <KeyStatus of={key} /> <code>{key.start}…</code>
      </>
    )}
    actions={[CopyId, EditKey, RotateKey, RevokeKey]}
    facts={(key) => [
      ["Scopes", <Chips none="nothing" texts={key.scopes} />],
      ["Tenant", <TenantName id={key.tenantId} none="none (the whole installation)" />],
      key.applicationId === null ? null : ["Application", <Named kind="application" id={key.applicationId} />],
      [
        "Created",
        <>
          <Moment at={key.createdAt} style="full" /> by <PrincipalName name={key.createdBy} />
        </>
      ],
      key.rotatedFrom === null
        ? null
        : ["Replaces", <Link href={`/api-keys/${key.rotatedFrom}`}>the previous key</Link>],
      ["Last used", <Moment at={key.lastUsedAt} />],
      ["Expires", key.expiresAt === null ? "never, unless it is revoked" : <Moment at={key.expiresAt} style="full" />]
    ]}
  >
    {({ id, name, start, tenantId }) => (
      <>
        <div className="grid">
          <SpendCard filter={{ apiKeyId: id }} />
          <CapsCard of={{ apiKeyId: id, name, tenantId }} subject={{ apiKeyId: id }} />
        </div>
        <Card title="Call with it">
          <div className="in stack">
            <p className="soft">
              Put the key that begins with <code>{start}</code> in place of <code>YOUR_KEY</code>. It was shown once,
              when it was created; rotate it to get a new one.
            </p>
            <Snippets />
          </div>
        </Card>
      </>
    )}
  </DetailPage>
)
