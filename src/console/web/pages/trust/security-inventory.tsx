import { Link } from "wouter"
import { count, Moment, short, words } from "../../kit/format.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { Named, PrincipalName } from "../../kit/names/names.tsx"
import { Noted, Tag } from "../../kit/parts.tsx"

const kinds = ["agent", "agent-key", "api-key", "credential", "delegation", "webhook"] as const

/** Every identity that is no person. */
export default () => (
  <ListPage
    title="Inventory"
    lead={<Link href="/security">Security</Link>}
    name="security.inventory"
    filters={[{ key: "kind", label: "Kind", options: kinds.map((kind) => [kind, words(kind)]) }]}
    label="Identities"
    keyOf={({ id, kind }) => `${kind} ${id}`}
    empty="There are no identities besides people"
    columns={[
      {
        title: "Name",
        cell: ({ id, kind, name }) => (
          <Noted
            isBelow
            value={
              kind === "agent" || kind === "api-key" ? (
                <Named className="name" kind={kind} id={id} />
              ) : (
                <span title={id}>{name ?? short(id)}</span>
              )
            }
            note={words(kind)}
          />
        )
      },
      {
        title: "Owner",
        cell: ({ owner, ownerIsLive }) =>
          owner === null ? (
            <Tag tone="warn">no owner</Tag>
          ) : (
            <>
              <PrincipalName name={owner} /> {ownerIsLive === false ? <Tag tone="warn">gone</Tag> : null}
            </>
          )
      },
      { title: "Last used", cell: ({ lastUsedAt }) => <Moment at={lastUsedAt} /> },
      { title: "Ends", cell: ({ expiresAt }) => <Moment at={expiresAt} style="date" /> },
      {
        title: "Granted",
        isNumber: true,
        cell: ({ scopesGranted }) => <span title={scopesGranted.join("\n")}>{count(scopesGranted.length)}</span>
      },
      {
        title: "Used in 90 days",
        isNumber: true,
        cell: ({ scopesUsed }) => <span title={scopesUsed.join("\n")}>{count(scopesUsed.length)}</span>
      }
    ]}
  />
)
