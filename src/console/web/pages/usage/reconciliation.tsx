import { useCall, useChange } from "../../api/hooks.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { Act, ButtonLink, CopyCurl } from "../../kit/actions.tsx"
import { count, Moment, quantity, usd, Usd, words } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { List } from "../../kit/lists/list.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { Page } from "../../kit/page.tsx"
import { Answered, Card, Fault, Noted, Soft, Tag, Tile } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { boundsOfMonth, lastMonths, nameOfMonth } from "./months.ts"

type Compared = Row<"reconciliation.list">
type State = Answer<"reconciliation.list">["providers"][number]

const tones = { read: "ok", unread: "", failed: "bad" } as const
const states = { read: "read", unread: "not read yet", failed: "cannot be read" } as const

const Providers = ({ states: of }: { readonly states: ReadonlyArray<State> }) => (
  <Card title="Providers with an admin key">
    <Table
      label="Providers with an admin key"
      rows={of}
      keyOf={({ provider }) => provider}
      columns={[
        { title: "Provider", cell: ({ provider }) => <strong>{provider}</strong> },
        {
          title: "Bill",
          isWide: true,
          cell: ({ detail, state }) => (
            <Noted isBelow value={<Tag tone={tones[state]}>{states[state]}</Tag>} note={detail ?? undefined} />
          )
        },
        { title: "Last read", cell: ({ readAt }) => (readAt === null ? <Soft>never</Soft> : <Moment at={readAt} />) }
      ]}
    />
  </Card>
)

/** Says how an admin key is given, where no provider has one. */
const NoKey = () => (
  <section className="card">
    <Empty title="No provider has an admin key">
      <p>
        With one, the usage and cost reports of OpenAI and Anthropic are compared with what was charged, day by day.
        Create an admin key at the provider (<code>sk-admin-…</code> of OpenAI, <code>sk-ant-admin…</code> of
        Anthropic), and give it to the gateway's configuration as <code>billing.adminKey</code> of the provider, or with{" "}
        <q>Change</q> on the page of providers. It is encrypted, and never shown again.
      </p>
      <p>
        <ButtonLink href="/gateway">Providers</ButtonLink>
      </p>
    </Empty>
  </section>
)

const Totals = ({
  billedUsd,
  chargedUsd,
  differenceUsd,
  findings,
  unexplainedUsd
}: Answer<"reconciliation.list">["totals"]) => (
  <div className="grid">
    <Tile label="Providers billed" value={<Usd amount={billedUsd} />} detail="as their reports say" />
    <Tile label="Charged" value={<Usd amount={chargedUsd} />} detail="for the same days, without refunds" />
    <Tile label="Difference" value={<Usd amount={differenceUsd} />} detail="billed less charged" />
    <Tile
      label="Unexplained"
      value={<Usd amount={unexplainedUsd} />}
      detail={findings === 0 ? "no finding" : quantity(findings, "findings")}
    />
  </div>
)

const Why = ({ of: { explanations, isFinding, isSettled } }: { readonly of: Compared }) =>
  explanations.length === 0 ? (
    <Soft>{isSettled ? "agrees" : "agrees so far"}</Soft>
  ) : (
    <div className="stack">
      {isFinding ? <Tag tone="bad">finding</Tag> : null}
      {explanations.map(({ amountUsd, detail, kind }) => (
        <Noted key={`${kind} ${detail}`} isBelow value={`${words(kind)}: ${usd(amountUsd)}`} note={detail} />
      ))}
    </div>
  )

const keyNote = ({ keys }: Compared): string | undefined =>
  keys.some(({ keyId }) => keyId !== null)
    ? keys
        .map(({ billedUsd, isOwn, keyId }) => `${keyId ?? "no key"}${isOwn ? "" : " (not ours)"} ${usd(billedUsd)}`)
        .join(", ")
    : undefined

/** What providers say they billed in a month, beside what was charged, and why it differs. */
export default function Reconciliation() {
  const months = lastMonths()
  const { set, values } = useFilters(["month", "provider", "cursor"])
  const month = months.find((one) => one === values.month) ?? months[0]!
  const query = { ...boundsOfMonth(month), ...(values.provider === undefined ? {} : { provider: values.provider }) }
  const asked = useCall("reconciliation.list", { query: { ...query, limit: 1 } }, { everySeconds: 60 })
  const refresh = useChange("reconciliation.refresh", "The bills were read")
  const providers = asked.data?.providers ?? []
  return (
    <Page
      title="Provider bills"
      lead="What providers say they billed in a calendar month (UTC), beside what was charged for their calls, and why it differs."
      actions={
        <>
          <CopyCurl name="reconciliation.list" input={{ query }} />
          <Act
            needs="insights:read"
            unless={
              refresh.isPending
                ? "The bills are being read"
                : providers.length === 0
                  ? "No provider has an admin key"
                  : undefined
            }
            onClick={() => refresh.mutate({ body: {} })}
          >
            {refresh.isPending ? "Reading …" : "Read them now"}
          </Act>
        </>
      }
    >
      <Fault cause={refresh.error} />
      <div className="filters">
        <Choice
          isRequired
          label="Month"
          value={month}
          options={months.map((name) => [name, nameOfMonth(name)])}
          onChange={(name) => set("month", name)}
        />
        {providers.length > 1 || values.provider !== undefined ? (
          <Choice
            label="Provider"
            value={values.provider}
            options={[
              ...new Set([
                ...providers.map(({ provider }) => provider),
                ...(values.provider === undefined ? [] : [values.provider])
              ])
            ]}
            onChange={(name) => set("provider", name)}
          />
        ) : null}
      </div>
      <Answered asked={asked} rows={6}>
        {({ items, providers, totals }) =>
          providers.length === 0 && items.length === 0 ? (
            <NoKey />
          ) : (
            <>
              <Totals {...totals} />
              <List
                name="reconciliation.list"
                input={{ query }}
                label="Days of bills"
                keyOf={({ day, model, provider }) => JSON.stringify([day, provider, model])}
                empty={[
                  "Nothing is known of this month yet",
                  "Complete days are read every six hours, the last 31 at first."
                ]}
                columns={[
                  {
                    title: "Day",
                    cell: ({ day, isSettled }) => (
                      <Noted isBelow value={day} note={isSettled ? "settled" : "not settled yet"} />
                    )
                  },
                  {
                    title: "Model",
                    cell: (one) => (
                      <Noted
                        isBelow
                        value={one.model === null ? <Soft>tools and others</Soft> : one.model}
                        note={
                          <span title={keyNote(one)}>
                            {one.provider}
                            {one.keys.length > 1 ? `, ${count(one.keys.length)} keys` : ""}
                          </span>
                        }
                      />
                    )
                  },
                  {
                    title: "Billed",
                    isNumber: true,
                    cell: ({ billedUsd, requests }) => (
                      <Noted isBelow value={<Usd amount={billedUsd} />} note={quantity(requests.billed, "requests")} />
                    )
                  },
                  {
                    title: "Charged",
                    isNumber: true,
                    cell: ({ chargedUsd, requests }) => (
                      <Noted
                        isBelow
                        value={<Usd amount={chargedUsd} />}
                        note={quantity(requests.charged, "requests")}
                      />
                    )
                  },
                  {
                    title: "Difference",
                    isNumber: true,
                    cell: ({ differenceUsd }) => <Usd amount={differenceUsd} />
                  },
                  { title: "Why", isWide: true, cell: (one) => <Why of={one} /> }
                ]}
              />
              {providers.length === 0 ? null : <Providers states={providers} />}
            </>
          )
        }
      </Answered>
    </Page>
  )
}
