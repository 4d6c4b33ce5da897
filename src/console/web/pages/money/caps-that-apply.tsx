import { type Query, type Row } from "../../api/operations.ts"
import { CapBar } from "../../kit/charts/cap-bar.tsx"
import { words } from "../../kit/format.tsx"
import { Called, Soft } from "../../kit/parts.tsx"
import { useCan } from "../../shell/session.tsx"

type Applicable = Row<"budgetCaps.applicable">

const lower = (name: string) => words(name.replace(/Id$/, "")).toLowerCase().replace("api key", "API key")

const Caps = ({ caps }: { readonly caps: ReadonlyArray<Applicable> }) =>
  caps.map(({ mode, period, use }) => (
    <CapBar
      key={`${use.capId} ${JSON.stringify(use.scope)}`}
      cap={use}
      href={`/caps/${use.capId}`}
      mode={mode}
      period={period}
    />
  ))

/** Every cap that counts what an agent, a key or another thing spends, with what each has left. */
export const CapsThatApply = ({ of }: { readonly of: Query<"budgetCaps.applicable"> }) => {
  if (!useCan()("budgets:read")) {
    return (
      <p className="soft">
        Showing the caps that apply requires the capability <code>budgets:read</code>.
      </p>
    )
  }
  return (
    <Called name="budgetCaps.applicable" input={{ query: of }} everySeconds={30} rows={2}>
      {({ fullOverAllTenants, items }) => {
        const always = items.filter(({ dependsOn }) => dependsOn.length === 0)
        const sometimes = items.filter(({ dependsOn }) => dependsOn.length > 0)
        const others = [...new Set(sometimes.flatMap(({ dependsOn }) => dependsOn))].map(lower)
        return (
          <>
            {fullOverAllTenants ? <p className="fault">A cap over all tenants is full.</p> : null}
            {always.length === 0 ? <Soft>No cap covers all of its spend.</Soft> : <Caps caps={always} />}
            {sometimes.length === 0 ? null : (
              <details>
                <summary>
                  {sometimes.length} more, by {others.join(" or ")}
                </summary>
                <div className="stack">
                  <Caps caps={sometimes} />
                </div>
              </details>
            )}
          </>
        )
      }}
    </Called>
  )
}
