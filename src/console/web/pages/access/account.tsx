import { type Row } from "../../api/operations.ts"
import { CopyCurl, type Of } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { ConfirmAct, formOf } from "../../kit/forms/operation.tsx"
import { PasswordField } from "../../kit/forms/password.tsx"
import { Chips } from "../../kit/forms/scopes.tsx"
import { List } from "../../kit/lists/list.tsx"
import { TenantName } from "../../kit/names/tenants.tsx"
import { Page } from "../../kit/page.tsx"
import { Facts, Noted, Tag } from "../../kit/parts.tsx"
import { useCaller } from "../../shell/session.tsx"

type Session = Row<"auth.listSessions">

const password = formOf("auth.changePassword")

const ChangePassword = () => (
  <password.Act
    button="main"
    title="Change your password"
    label="Change password"
    action="Change the password"
    done="Your password is changed"
    body={(_, data) => ({
      currentPassword: String(data.get("currentPassword") ?? ""),
      newPassword: String(data.get("newPassword") ?? "")
    })}
  >
    <PasswordField label="Current password" name="currentPassword" autoComplete="current-password" />
    <PasswordField label="New password" name="newPassword" autoComplete="new-password" />
    <p className="soft">Your other sessions end.</p>
  </password.Act>
)

const EndOthers = () => (
  <ConfirmAct
    name="auth.endOtherSessions"
    input={{}}
    label="End all others"
    verb="End"
    what="sessions"
    title="End your other sessions"
    action="End them"
    done="Your other sessions have ended"
  >
    Everywhere else you have to sign in again.
  </ConfirmAct>
)

const End = ({ of: session }: Of<Session>) => (
  <ConfirmAct
    name="auth.endSession"
    of={{ id: session.id }}
    verb="End"
    what="session"
    unless={session.isCurrent ? "You use it now; sign out instead" : undefined}
  >
    Its browser or program has to sign in again.
  </ConfirmAct>
)

/** A browser and its system, as far as the text that it sends says. */
const deviceOf = (userAgent: string | null): string => {
  if (userAgent === null) return "Unknown program"
  const browser = /(Edg|OPR|Firefox|Chrome|Safari)\/[\d.]+/.exec(userAgent)?.[1]
  const system = /Windows|Android|iPhone|iPad|Mac OS X|Linux/.exec(userAgent)?.[0]
  const names: Readonly<Record<string, string>> = { Edg: "Edge", OPR: "Opera", "Mac OS X": "macOS" }
  if (browser === undefined) return userAgent.split(/[\s/]/)[0] ?? userAgent
  const found = [browser, system].flatMap((name) => (name === undefined ? [] : [names[name] ?? name]))
  return found.join(" on ")
}

/** One's own account: who one is here, the password, and where one is signed in. */
export default function OwnAccount() {
  const { account, capabilities, principal } = useCaller()
  return (
    <Page
      title={account?.name ?? principal}
      lead="Your own account: its password, and where it is signed in."
      actions={
        <>
          <CopyCurl name="auth.me" input={{}} />
          {account === null ? null : <ChangePassword />}
        </>
      }
    >
      <section className="card">
        <Facts
          className="facts in"
          facts={[
            account === null ? null : ["E-mail address", account.email],
            account === null ? null : ["Tenant", <TenantName id={account.tenantId} none="the whole installation" />],
            ["Capabilities", <Chips none="nothing yet; an operator can give you roles" texts={capabilities} />],
            account === null ? null : ["Last sign-in", <Moment at={account.lastSignInAt} style="full" />]
          ]}
        />
      </section>
      {account === null ? null : (
        <>
          <div className="bar-of-tabs">
            <h2>Where you are signed in</h2>
            <EndOthers />
          </div>
          <List
            name="auth.listSessions"
            label="Your sessions"
            empty="There is no session"
            columns={[
              {
                title: "Program",
                cell: ({ isCurrent, userAgent }) => (
                  <span title={userAgent ?? undefined}>
                    <strong>{deviceOf(userAgent)}</strong> {isCurrent ? <Tag tone="ok">this one</Tag> : null}
                  </span>
                )
              },
              { title: "Address", cell: ({ ipAddress }) => <code>{ipAddress ?? "unknown"}</code> },
              { title: "Last used", cell: ({ lastUsedAt }) => <Moment at={lastUsedAt} /> },
              {
                title: "Signed in",
                cell: ({ createdAt, expiresAt }) => (
                  <Noted
                    value={<Moment at={createdAt} style="full" />}
                    note={
                      <>
                        ends <Moment at={expiresAt} />
                      </>
                    }
                  />
                )
              }
            ]}
            acts={[End]}
          />
        </>
      )}
    </Page>
  )
}
