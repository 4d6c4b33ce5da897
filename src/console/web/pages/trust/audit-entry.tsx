import { Link } from "wouter"
import { type Answer } from "../../api/operations.ts"
import { Moment, words } from "../../kit/format.tsx"
import { EntityName, type Kind, Named, PrincipalName } from "../../kit/names/names.tsx"
import { TenantName } from "../../kit/names/tenants.tsx"
import { Card, DetailPage, Noted, Tag } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { outcomeTones } from "./audit.tsx"

const textOf = (value: unknown): string =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, undefined, 1)

/** The kinds of what members identify. */
const kinds: Readonly<Record<string, Kind>> = {
  agentId: "agent",
  apiKeyId: "api-key",
  applicationId: "application",
  capId: "cap",
  planId: "plan",
  roleIds: "role",
  tenantId: "tenant",
  trialUserId: "trial-user"
}

/** The names of what a member identifies. */
const Meant = ({ name, value }: { readonly name: string; readonly value: unknown }) => {
  if (value == null) return null
  if (name.endsWith("By") && typeof value === "string") return <PrincipalName name={value} />
  const kind = kinds[name]
  return kind === undefined
    ? null
    : [value].flat().map((id) => <Named key={String(id)} className="line" kind={kind} id={String(id)} />)
}

type Changes = NonNullable<Answer<"auditLogs.get">["changes"]>

/** The members of a thing before and after a change; those that changed are marked. */
const Compared = ({ after, before }: Changes) => {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].toSorted()
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Before and after">
      <table className="compared">
        <thead>
          <tr>
            <th scope="col">Member</th>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => {
            const [was, is] = [textOf(before?.[name]), textOf(after?.[name])]
            const isSame = was === is
            return (
              <tr key={name} className={isSame ? "gone" : undefined}>
                <td>{name}</td>
                <td className="wrap">
                  <code>{isSame || was === "" ? was : <del>{was}</del>}</code>{" "}
                  <Meant name={name} value={before?.[name]} />
                </td>
                <td className="wrap">
                  <code>{isSame || is === "" ? is : <ins>{is}</ins>}</code> <Meant name={name} value={after?.[name]} />
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

/** The other entries about the same. */
const othersOf = (entityType: string, entityId: string) =>
  `/audit?${new URLSearchParams({ entityType, entityId }).toString()}`

/** One entry: what it says, what changed, what proves it. */
export default () => (
  <DetailPage
    name="auditLogs.get"
    what="Audit entry"
    title={({ actionType }) => words(actionType)}
    lead={<Link href="/audit">Audit log</Link>}
    facts={({ hash, ...entry }) => [
      ["When", <Moment at={entry.occurredAt} style="full" />],
      [
        "Outcome",
        <>
          <Tag tone={outcomeTones[entry.outcome]}>{entry.outcome}</Tag> {entry.reason}
        </>
      ],
      [
        "Actor",
        <Noted
          value={<PrincipalName name={entry.userId} />}
          note={<Link href={`/audit?userId=${encodeURIComponent(entry.userId)}`}>{entry.userId}</Link>}
        />
      ],
      [
        words(entry.entityType),
        entry.entityId === null ? (
          "none"
        ) : (
          <Noted
            value={<EntityName type={entry.entityType} id={entry.entityId} />}
            note={<Link href={othersOf(entry.entityType, entry.entityId)}>{entry.entityId}</Link>}
          />
        )
      ],
      ["Tenant", <TenantName id={entry.tenantId} none="the installation" />],
      ["From", <Noted value={entry.ipAddress ?? "no address"} note={entry.userAgent} />],
      ["Trace", <code>{entry.traceId ?? "none"}</code>],
      ["Chain", <code>{entry.sequence === null ? "not linked yet" : `#${entry.sequence} ${hash}`}</code>]
    ]}
  >
    {({ changes, outcome }) => (
      <Card title={outcome === "success" ? "What changed" : "What was requested"}>
        {changes === null ? <Empty title="This entry has no details" /> : <Compared {...changes} />}
      </Card>
    )}
  </DetailPage>
)
