import { useEffect, useState } from "react"
import { Link, useLocation, useSearchParams } from "wouter"
import { addressOf } from "../../api/client.ts"
import { queries, useCall } from "../../api/hooks.ts"
import { type Answer, type Query, type Row } from "../../api/operations.ts"
import { Act, CopyCurl } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { count, Moment, short, words } from "../../kit/format.tsx"
import { Icon } from "../../kit/icons.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { useCaller, useCan } from "../../shell/session.tsx"
import { Page } from "../../kit/page.tsx"

const keys = ["actionType", "entityType", "entityId", "userId", "tenantId", "outcome", "startDate", "endDate"] as const
type Entry = Row<"auditLogs.list">

const tones = { success: "ok", denied: "warn", failed: "bad" } as const

/** Reads the list again when an entry arrives, at most once a second. */
const useTail = (isOn: boolean, query: object) => {
  const address = addressOf("auditLogs.stream", { query })[1]
  useEffect(() => {
    if (!isOn) return
    const source = new EventSource(address)
    let timer: ReturnType<typeof setTimeout> | undefined
    source.addEventListener("audit-entry", () => {
      timer ??= setTimeout(() => {
        timer = undefined
        void queries.invalidateQueries({ queryKey: ["auditLogs.list"] })
      }, 1_000)
    })
    return () => {
      clearTimeout(timer)
      source.close()
    }
  }, [isOn, address])
}

type Verified = Answer<"auditLogs.verify">

const Verdict = ({ verified }: { readonly verified: Verified }) => (
  <>
    <p>
      <span className={`tag ${verified.ok ? "ok" : "bad"}`}>{verified.ok ? "Intact" : "Broken"}</span>
    </p>
    <dl className="facts">
      <dt>Checked</dt>
      <dd>{count(verified.checked)} entries</dd>
      {verified.firstBad === null ? null : (
        <>
          <dt>First fault</dt>
          <dd>
            <code>{JSON.stringify(verified.firstBad)}</code>
          </dd>
        </>
      )}
      <dt>Head</dt>
      <dd>
        <code>{JSON.stringify(verified.head)}</code>
      </dd>
      <dt>Last checkpoint</dt>
      <dd>
        <code>{verified.checkpoint === null ? "none yet" : JSON.stringify(verified.checkpoint)}</code>
      </dd>
    </dl>
  </>
)

const Verify = ({ onClose }: { readonly onClose: () => void }) => {
  const verified = useCall("auditLogs.verify", {})
  return (
    <Dialog title="Verify the log" onClose={onClose} wide>
      <div className="in">
        <p>
          Every entry that is left is compared with its link in the chain, and the chain with its signed checkpoints.
        </p>
        <Answered asked={verified}>{(answer) => <Verdict verified={answer} />}</Answered>
      </div>
    </Dialog>
  )
}

const exportLink = (query: object, format: "jsonl" | "csv") =>
  addressOf("auditLogs.export", { query: { ...query, format } })[1]

/** How far back the list goes, by hours. */
const spans: Readonly<Record<string, string>> = { 1: "an hour", 24: "a day", 168: "a week", 720: "30 days" }

/** The whole minute so many hours ago. */
const momentBefore = (hours: number): string =>
  new Date(Math.floor(Date.now() / 60_000) * 60_000 - hours * 3_600_000).toISOString()

/** Who did what, when, from where. */
export default function Audit() {
  const { isFiltered, set, values } = useFilters(keys)
  const [, setSearch] = useSearchParams()
  const may = useCan()
  const { tenant } = useCaller()
  const [isFollowing, setFollowing] = useState(false)
  const [isVerifying, setVerifying] = useState(false)
  const types = useCall("auditLogs.types", {})
  const query: Query<"auditLogs.list"> = values
  const { endDate: _until, startDate: _from, ...live } = values
  useTail(isFollowing, live)
  const entities = [...new Set(types.data?.map(({ entityType }) => entityType))].toSorted()
  const actions =
    types.data?.filter(({ entityType }) => values.entityType === undefined || entityType === values.entityType) ?? []
  const by = (key: (typeof keys)[number], value: string | null) =>
    value === null ? null : (
      <button type="button" className="link" title={`Filter by ${value}`} onClick={() => set(key, value)}>
        {short(value)}
      </button>
    )
  return (
    <ListPage
      title="Audit log"
      lead="Every change, with who made it, from where, and what was before. The chain proves that none is missing."
      actions={
        <>
          <Act kind={isFollowing ? "main" : ""} onClick={() => setFollowing(!isFollowing)}>
            {isFollowing ? "Following" : "Follow"}
          </Act>
          <Act
            needs="audit-logs:read"
            unless={tenant === null ? undefined : "Only the installation's accounts can verify the whole chain"}
            onClick={() => setVerifying(true)}
          >
            Verify
          </Act>
          {may("audit-logs:export") ? (
            <>
              <a className="btn" href={exportLink(values, "csv")} download>
                CSV
              </a>
              <a className="btn" href={exportLink(values, "jsonl")} download>
                JSON Lines
              </a>
            </>
          ) : null}
        </>
      }
      filters={
        <>
          <Choice
            label="Entity"
            value={values.entityType}
            onChange={(value) => set("entityType", value)}
            options={entities.map((type) => [type, words(type)])}
          />
          <Choice
            label="Action"
            value={values.actionType}
            onChange={(value) => set("actionType", value)}
            options={actions.map(({ actionType }) => [actionType, words(actionType)])}
          />
          <Choice
            label="Outcome"
            value={values.outcome}
            onChange={(value) => set("outcome", value)}
            options={["success", "denied", "failed"]}
          />
          <Choice
            label="Since"
            value={values.startDate}
            onChange={(value) => set("startDate", value in spans ? momentBefore(Number(value)) : value)}
            options={[
              ...Object.entries(spans),
              ...(values.startDate === undefined
                ? []
                : [[values.startDate, new Date(values.startDate).toLocaleString()] as const])
            ]}
          />
          {(["userId", "entityId", "tenantId"] as const).map((key) =>
            values[key] === undefined ? null : (
              <button key={key} type="button" className="pill on" onClick={() => set(key, "")}>
                {words(key)}: {values[key]}
                <Icon name="close" size={14} />
              </button>
            )
          )}
          {isFiltered ? (
            <button type="button" className="btn quiet" onClick={() => setSearch({})}>
              Remove filters
            </button>
          ) : null}
        </>
      }
      name="auditLogs.list"
      searches="Action, name, id or trace"
      input={{ query }}
      isFiltered={isFiltered}
      label="Audit entries"
      keyOf={({ id }: Entry) => id}
      empty={
        <Empty title="There is no entry yet">
          <p>The first change writes the first entry.</p>
        </Empty>
      }
      columns={[
        { title: "When", cell: ({ occurredAt }) => <Moment at={occurredAt} style="full" /> },
        {
          title: "Action",
          cell: ({ actionType, count: times, id }) => (
            <Link href={`/audit/${id}`}>
              <strong>{words(actionType)}</strong> {times > 1 ? <small>{count(times)} times</small> : null}
            </Link>
          )
        },
        { title: "Outcome", cell: ({ outcome }) => <span className={`tag ${tones[outcome]}`}>{outcome}</span> },
        { title: "Actor", cell: ({ userId }) => by("userId", userId) },
        {
          title: "Of",
          cell: ({ entityId, entityType }) => (
            <>
              {words(entityType)} {by("entityId", entityId)}
            </>
          )
        },
        { title: "From", cell: ({ ipAddress }) => <span className="soft">{ipAddress}</span> },
        {
          title: "Sequence",
          isNumber: true,
          cell: ({ sequence }) => <small>{sequence === null ? "not linked yet" : count(sequence)}</small>
        }
      ]}
    >
      {isVerifying ? <Verify onClose={() => setVerifying(false)} /> : null}
    </ListPage>
  )
}

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

/** One entry: what it says, what changed, what proves it. */
export const AuditEntry = () => {
  const [path] = useLocation()
  const id = path.split("/").at(-1) ?? ""
  const asked = useCall("auditLogs.get", { params: { id } })
  return (
    <Page
      title={asked.data === undefined ? "Audit entry" : words(asked.data.actionType)}
      lead={<Link href="/audit">Audit log</Link>}
      actions={<CopyCurl name="auditLogs.get" input={{ params: { id } }} />}
    >
      <Answered asked={asked}>
        {({ changes, hash, ...entry }) => (
          <>
            <section className="card">
              <div className="in">
                <dl className="facts">
                  <dt>When</dt>
                  <dd>
                    <Moment at={entry.occurredAt} style="full" />
                  </dd>
                  <dt>Outcome</dt>
                  <dd>
                    <span className={`tag ${tones[entry.outcome]}`}>{entry.outcome}</span> {entry.reason}
                  </dd>
                  <dt>Actor</dt>
                  <dd>
                    <Link href={`/audit?userId=${encodeURIComponent(entry.userId)}`}>{entry.userId}</Link>{" "}
                    <small>{entry.actorType}</small>
                  </dd>
                  <dt>{words(entry.entityType)}</dt>
                  <dd>
                    {entry.entityId === null ? (
                      "none"
                    ) : (
                      <Link href={`/audit?entityId=${encodeURIComponent(entry.entityId)}`}>{entry.entityId}</Link>
                    )}
                  </dd>
                  <dt>Tenant</dt>
                  <dd>{entry.tenantId ?? "the installation"}</dd>
                  <dt>From</dt>
                  <dd>
                    {entry.ipAddress ?? "no address"} <small>{entry.userAgent}</small>
                  </dd>
                  <dt>Trace</dt>
                  <dd>
                    <code>{entry.traceId ?? "none"}</code>
                  </dd>
                  <dt>Chain</dt>
                  <dd>
                    <code>{entry.sequence === null ? "not linked yet" : `#${entry.sequence} ${hash}`}</code>
                  </dd>
                </dl>
              </div>
            </section>
            <section className="card">
              <header>
                <h2>{entry.outcome === "success" ? "What changed" : "What was asked"}</h2>
              </header>
              {changes === null ? <Empty title="This entry records no members" /> : <Compared {...changes} />}
            </section>
          </>
        )}
      </Answered>
    </Page>
  )
}
