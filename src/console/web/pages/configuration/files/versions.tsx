import { useSearchParams } from "wouter"
import { ButtonLink } from "../../../kit/actions.tsx"
import { Moment } from "../../../kit/format.tsx"
import { ConfirmAct } from "../../../kit/forms/operation.tsx"
import { List } from "../../../kit/lists/list.tsx"
import { PrincipalName } from "../../../kit/names/names.tsx"
import { Called, Card, NameLink, Soft, Tag, Verbatim } from "../../../kit/parts.tsx"
import { UnifiedDiff } from "../../../kit/texts/diff.tsx"
import { etag, type Node, type OfFile } from "./nodes.ts"

interface Compared {
  readonly from: number
  readonly node: Node
  readonly to: number
}

/** How one version of a file came out of another, as the service says it. */
const VersionDiff = ({ from, node, to }: Compared) => (
  <Called name="configuration.diff" input={{ params: { id: node.id }, query: { from, to } }} rows={3}>
    {(answer) => (
      <UnifiedDiff
        diff={typeof answer === "string" ? answer : answer.diff}
        label={`From version ${from} to version ${to}`}
      />
    )}
  </Called>
)

const RollBack = ({ locked, node, to }: OfFile & { readonly to: number }) => (
  <ConfirmAct
    name="configuration.rollback"
    input={{ params: { id: node.id }, body: { version: to }, headers: etag(node.version ?? 0) }}
    verb="Roll back"
    what="file"
    button=""
    title={`Roll ${node.name} back to version ${to}`}
    action="Roll back"
    done={`${node.name} has the content of version ${to} again`}
    wide
    needs="configuration:rollback"
    unless={locked ?? (to === node.version ? "It is the current version" : undefined)}
    below={<VersionDiff node={node} from={node.version ?? 0} to={to} />}
  >
    Adds version {(node.version ?? 0) + 1} with the content of version {to}; nothing of the history is lost. This is
    what changes:
  </ConfirmAct>
)

/** The versions of a file, any two of which can be compared. */
export const Versions = ({ locked, node }: OfFile) => {
  const [search, setSearch] = useSearchParams()
  const newest = node.version ?? 1
  const from = Number(search.get("from") ?? Math.max(1, newest - 1))
  const to = Number(search.get("to") ?? newest)
  const number = (label: string, name: string, value: number) => (
    <label>
      {label}{" "}
      <input
        key={value}
        type="number"
        name={name}
        min={1}
        max={newest}
        required
        defaultValue={value}
        className="short"
      />
    </label>
  )
  return (
    <>
      <section className="card" aria-label="Compare">
        <form
          className="in compare"
          onSubmit={(event) => {
            event.preventDefault()
            const data = new FormData(event.currentTarget)
            setSearch({ tab: "versions", from: String(data.get("from")), to: String(data.get("to")) })
          }}
        >
          <strong>Compare</strong>
          {number("version", "from", from)}
          {number("with", "to", to)}
          <button type="submit" className="btn">
            Compare
          </button>
        </form>
        <div className="in">
          {newest === 1 && search.get("from") === null ? (
            <p className="soft">There is one version only.</p>
          ) : (
            <VersionDiff node={node} from={from} to={to} />
          )}
        </div>
      </section>
      <List
        name="configuration.versions"
        input={{ params: { id: node.id }, query: { limit: 20 } }}
        label="Versions"
        keyOf={({ version }) => String(version)}
        empty="There is no version"
        columns={[
          {
            title: "Version",
            cell: ({ version }) => <NameLink name={`Version ${version}`} to={`/files/${node.id}?version=${version}`} />
          },
          { title: "Saved", cell: ({ createdAt }) => <Moment at={createdAt} /> },
          { title: "By", cell: ({ createdBy }) => <PrincipalName name={createdBy} /> },
          {
            title: "Content",
            cell: ({ restoredFrom, version }) => (
              <>
                {version === newest ? <Tag tone="ok">current</Tag> : null}{" "}
                <Soft>{restoredFrom === undefined ? "saved" : `content of version ${restoredFrom}`}</Soft>
              </>
            )
          }
        ]}
        acts={({ version }) => (
          <>
            {version === 1 ? null : (
              <ButtonLink href={`/files/${node.id}?tab=versions&from=${version - 1}&to=${version}`}>
                What changed
              </ButtonLink>
            )}
            <RollBack locked={locked} node={node} to={version} />
          </>
        )}
      />
    </>
  )
}

/** One version of a file, at its own address. */
export const OneVersion = ({ locked, node, version }: OfFile & { readonly version: number }) => (
  <Called name="configuration.version" input={{ params: { id: node.id, version } }}>
    {({ content, createdAt, createdBy, restoredFrom }) => (
      <Card
        label={`Version ${version}`}
        title={`Version ${version}`}
        beside={
          <small>
            saved by <PrincipalName name={createdBy} /> <Moment at={createdAt} />
            {restoredFrom === undefined ? null : `, with the content of version ${restoredFrom}`}
          </small>
        }
      >
        <div className="in stack">
          <Verbatim label={`Content of version ${version}`} text={content} />
          <div className="acts">
            <ButtonLink href={`/files/${node.id}`}>Current version</ButtonLink>
            <ButtonLink href={`/files/${node.id}?tab=versions&from=${version}&to=${node.version}`}>
              Compare with the current one
            </ButtonLink>
            <RollBack locked={locked} node={node} to={version} />
          </div>
        </div>
      </Card>
    )}
  </Called>
)
