import { useLocation } from "wouter"
import { call } from "../../api/client.ts"
import { Form } from "../../kit/forms/form.tsx"
import { PasswordField } from "../../kit/forms/password.tsx"
import { Gate, LinkNeeded, opened, useSignIn } from "./login.tsx"

const token = opened.page === "invitation" ? opened.token : ""

/** Chooses the password of the account that the link of an operator is for, and signs in. */
export const Invitation = () => {
  const [, go] = useLocation()
  const accept = useSignIn((data) =>
    call("auth.acceptInvitation", { body: { token, password: String(data.get("password") ?? "") } })
  )
  if (token === "") {
    return (
      <LinkNeeded title="Choose your password">Open the link that you were sent, or ask for another one.</LinkNeeded>
    )
  }
  return (
    <Gate title="Choose your password">
      <Form
        cause={accept.error}
        onSubmit={(data) => accept.mutate(data, { onSuccess: () => go("/", { replace: true }) })}
        actions={
          <button type="submit" className="btn main" disabled={accept.isPending}>
            Sign in
          </button>
        }
      >
        <p>With it you sign in to Application Manager from now on. The link works once.</p>
        <PasswordField label="Password" name="password" autoComplete="new-password" autoFocus />
      </Form>
    </Gate>
  )
}
