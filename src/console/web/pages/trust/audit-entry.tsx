import { Link } from "wouter"
import { type Answer } from "../../api/operations.ts"
import { Moment, words } from "../../kit/format.tsx"
import { Card, DetailPage, Noted, Tag } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { outcomeTones } from "./audit.tsx"

const shown = (value: unknown): string =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, undefined, 1)

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
            const [was, is] = [shown(before?.[name]), shown(after?.[name])]
            return (
              <tr key={name} className={was === is ? "gone" : undefined}>
                <td>{name}</td>
                <td className="wrap">
                  <code>{was === is ? was : was === "" ? "" : <del>{was}</del>}</code>
                </td>
                <td className="wrap">
                  <code>{was === is ? is : is === "" ? "" : <ins>{is}</ins>}</code>
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
const Others = ({ member, of }: { readonly member: "entityId" | "userId"; readonly of: string }) => (
  <Link href={`/audit?${member}=${encodeURIComponent(of)}`}>{of}</Link>
)

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
      ["Actor", <Noted value={<Others member="userId" of={entry.userId} />} note={entry.actorType} />],
      [words(entry.entityType), entry.entityId === null ? "none" : <Others member="entityId" of={entry.entityId} />],
      ["Tenant", entry.tenantId ?? "the installation"],
      ["From", <Noted value={entry.ipAddress ?? "no address"} note={entry.userAgent} />],
      ["Trace", <code>{entry.traceId ?? "none"}</code>],
      ["Chain", <code>{entry.sequence === null ? "not linked yet" : `#${entry.sequence} ${hash}`}</code>]
    ]}
  >
    {({ changes, outcome }) => (
      <Card title={outcome === "success" ? "What changed" : "What was asked"}>
        {changes === null ? <Empty title="This entry records no members" /> : <Compared {...changes} />}
      </Card>
    )}
  </DetailPage>
)
