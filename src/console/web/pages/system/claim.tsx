import { useLocation } from "wouter"
import { call } from "../../api/client.ts"
import { Form, textOf, TextField } from "../../kit/forms/form.tsx"
import { PasswordField } from "../../kit/forms/password.tsx"
import { Gate, LinkNeeded, opened, useSignIn } from "./login.tsx"

const token = opened.page === "claim" ? opened.token : ""

/** Where a new operator goes on: to the first key, or home where there are keys, as in a demo. */
const nextPage = async () => {
  const { items } = await call("apiKeys.list", { query: { limit: 1 } })
  return items.length === 0 ? "/api-keys?create=first" : "/"
}

/** Makes the first account with the link that the start printed. */
export const Claim = () => {
  const [, go] = useLocation()
  const claim = useSignIn((data) => {
    const [email = "", name = ""] = [textOf(data, "email"), textOf(data, "name")]
    return call("auth.claim", { body: { token, email, name, password: String(data.get("password") ?? "") } })
  })
  const onSuccess = async () => go(await nextPage().catch(() => "/"), { replace: true })
  if (token === "") {
    return (
      <LinkNeeded title="Claim this installation">
        A start in Development prints it, and so does <code>npm run operator -- claim</code>.
      </LinkNeeded>
    )
  }
  return (
    <Gate title="Claim this installation">
      <Form
        cause={claim.error}
        onSubmit={(data) => claim.mutate(data, { onSuccess: () => void onSuccess() })}
        actions={
          <button type="submit" className="btn main" disabled={claim.isPending}>
            Create the account
          </button>
        }
      >
        <p>Create the first account. It is an Administrator of this installation.</p>
        <TextField label="E-mail address" name="email" type="email" autoComplete="username" required autoFocus />
        <TextField label="Name" name="name" autoComplete="name" maxLength={100} required />
        <PasswordField label="Password" name="password" autoComplete="new-password" />
      </Form>
    </Gate>
  )
}
