import { Fragment, type ReactNode, useEffect, useState } from "react"
import { Link, useSearchParams } from "wouter"
import { addressOf } from "../../api/client.ts"
import { queries, useCall } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { Act, Download } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { count, Moment, words } from "../../kit/format.tsx"
import { useFilters, withMembers } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { EntityName, PrincipalName } from "../../kit/names/names.tsx"
import { TenantText } from "../../kit/names/tenants.tsx"
import { Called, Facts, Soft, Tag } from "../../kit/parts.tsx"
import { useCaller, useCan } from "../../shell/session.tsx"

const keys = ["actionType", "entityType", "entityId", "userId", "tenantId", "outcome", "startDate", "endDate"] as const

/** The tone of each outcome of what was asked. */
export const outcomeTones = { success: "ok", denied: "warn", failed: "bad" } as const

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

const Verdict = ({ verified }: { readonly verified: Answer<"auditLogs.verify"> }) => (
  <>
    <p>{verified.ok ? <Tag tone="ok">Intact</Tag> : <Tag tone="bad">Broken</Tag>}</p>
    <Facts
      facts={[
        ["Checked", `${count(verified.checked)} entries`],
        verified.firstBad === null ? null : ["First fault", <code>{JSON.stringify(verified.firstBad)}</code>],
        ["Head", <code>{JSON.stringify(verified.head)}</code>],
        [
          "Last checkpoint",
          <code>{verified.checkpoint === null ? "none yet" : JSON.stringify(verified.checkpoint)}</code>
        ]
      ]}
    />
  </>
)

const Verify = () => (
  <Dialog title="Verify the log" wide>
    <div className="in">
      <p>Every retained entry is compared with its link in the chain, and the chain with its signed checkpoints.</p>
      <Called name="auditLogs.verify" input={{}}>
        {(answer) => <Verdict verified={answer} />}
      </Called>
    </div>
  </Dialog>
)

/** How far back the list goes, by hours. */
const spans: Readonly<Record<string, string>> = { 1: "an hour", 24: "a day", 168: "a week", 720: "30 days" }

/** The whole minute so many hours ago. */
const momentBefore = (hours: number): string =>
  new Date(Math.floor(Date.now() / 60_000) * 60_000 - hours * 3_600_000).toISOString()

/** Who did what, when, from where. */
export default function Audit() {
  const { isFiltered, values } = useFilters(keys)
  const [, setSearch] = useSearchParams()
  const may = useCan()
  const { tenant } = useCaller()
  const [isFollowing, setFollowing] = useState(false)
  const types = useCall("auditLogs.types", {})
  const { endDate: _until, startDate: _from, ...live } = values
  useTail(isFollowing, live)
  const entities = [...new Set(types.data?.map(({ entityType }) => entityType))].toSorted()
  const actions =
    types.data?.filter(({ entityType }) => values.entityType === undefined || entityType === values.entityType) ?? []
  const by = (members: Readonly<Record<string, string>>, called: string, name: ReactNode) => (
    <button
      type="button"
      className="link"
      title={`Filter by ${called}`}
      onClick={() => setSearch((before) => withMembers(before, { ...members, cursor: "" }))}
    >
      {name}
    </button>
  )
  return (
    <ListPage
      title="Audit log"
      lead="Every change: who made it, from where, and the values before and after. The chain proves that none is missing."
      actions={
        <>
          <Act kind={isFollowing ? "main" : ""} onClick={() => setFollowing(!isFollowing)}>
            {isFollowing ? "Following" : "Follow"}
          </Act>
          <Act
            needs="audit-logs:read"
            unless={tenant === null ? undefined : "Only the installation's accounts can verify the whole chain"}
            opens={<Verify />}
          >
            Verify
          </Act>
          {may("audit-logs:export") ? (
            <>
              <Download name="auditLogs.export" input={{ query: { ...values, format: "csv" } }} text="CSV" />
              <Download name="auditLogs.export" input={{ query: { ...values, format: "jsonl" } }} text="JSON Lines" />
            </>
          ) : null}
        </>
      }
      filters={[
        { key: "entityType", label: "Entity", options: entities.map((type) => [type, words(type)]) },
        {
          key: "actionType",
          label: "Action",
          options: actions.map(({ actionType }) => [actionType, words(actionType)])
        },
        { key: "outcome", label: "Outcome", options: ["success", "denied", "failed"] },
        {
          key: "startDate",
          label: "Since",
          options: [
            ...Object.entries(spans),
            ...(values.startDate === undefined
              ? []
              : [[values.startDate, new Date(values.startDate).toLocaleString()] as const])
          ],
          toUrl: (value) => (value in spans ? momentBefore(Number(value)) : value)
        },
        { key: "userId", label: "Actor", nameOf: (name) => <PrincipalName name={name} isPlain /> },
        {
          key: "entityId",
          label: "Subject",
          nameOf: (id) => <EntityName type={values.entityType ?? ""} id={id} isPlain />
        },
        { key: "tenantId", label: "Tenant", nameOf: (id) => <TenantText id={id} /> },
        { key: "endDate", label: "Until", isHidden: true },
        isFiltered ? (
          <button key="none" type="button" className="btn quiet" onClick={() => setSearch({})}>
            Remove filters
          </button>
        ) : (
          <Fragment key="none" />
        )
      ]}
      name="auditLogs.list"
      searches="Action, name, id or trace"
      label="Audit entries"
      empty={["There is no entry yet", "The first change writes the first entry."]}
      columns={[
        {
          title: "When",
          cell: ({ occurredAt }) => <Moment at={occurredAt} style="full" />
        },
        {
          title: "Action",
          cell: ({ actionType, count: times, id, sequence }) => (
            <Link href={`/audit/${id}`} title={sequence === null ? "Not linked yet" : `#${sequence}`}>
              <strong>{words(actionType)}</strong> {times > 1 ? <small>{count(times)} times</small> : null}
            </Link>
          )
        },
        {
          title: "Outcome",
          cell: ({ outcome }) =>
            outcome === "success" ? <Soft>{outcome}</Soft> : <Tag tone={outcomeTones[outcome]}>{outcome}</Tag>
        },
        {
          title: "Actor",
          cell: ({ ipAddress, userId }) => (
            <span title={ipAddress === null ? undefined : `From ${ipAddress}`}>
              {by({ userId }, userId, <PrincipalName name={userId} isPlain />)}
            </span>
          )
        },
        {
          title: "Subject",
          cell: ({ entityId, entityType }) => (
            <span className="cut">
              {words(entityType)}{" "}
              {entityId === null
                ? null
                : by({ entityId, entityType }, entityId, <EntityName type={entityType} id={entityId} isPlain />)}
            </span>
          )
        }
      ]}
    />
  )
}
