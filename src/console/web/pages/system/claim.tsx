import { useLocation } from "wouter"
import { call } from "../../api/client.ts"
import { Form, textOf, TextField } from "../../kit/forms/form.tsx"
import { Gate, useSignIn } from "./login.tsx"

// Behind the #, so that it is in no request and no log; taken out of the address once it is read.
const token = location.pathname.endsWith("/claim") ? location.hash.slice(1) : ""
if (token !== "") history.replaceState(null, "", location.pathname)

/** Makes the first account with the link that the start printed, and goes on to the first key. */
export const Claim = () => {
  const [, go] = useLocation()
  const claim = useSignIn((data) => {
    const [email = "", name = ""] = [textOf(data, "email"), textOf(data, "name")]
    return call("auth.claim", { body: { token, email, name, password: String(data.get("password") ?? "") } })
  })
  const onSuccess = () => go("/api-keys?create=first", { replace: true })
  if (token === "") {
    return (
      <Gate title="Claim this installation">
        <div className="in">
          <p className="fault" role="alert">
            This page needs the whole link.
          </p>
          <p>
            A start in Development prints it, and so does <code>npm run operator -- claim</code>.
          </p>
        </div>
      </Gate>
    )
  }
  return (
    <Gate title="Claim this installation">
      <Form
        cause={claim.error}
        onSubmit={(data) => claim.mutate(data, { onSuccess })}
        actions={
          <button type="submit" className="btn main" disabled={claim.isPending}>
            Make the account
          </button>
        }
      >
        <p>Make the first account. It is an Administrator of this installation.</p>
        <TextField label="E-mail address" name="email" type="email" autoComplete="username" required autoFocus />
        <TextField label="Name" name="name" autoComplete="name" maxLength={100} required />
        <TextField
          label="Password"
          name="password"
          type="password"
          autoComplete="new-password"
          minLength={12}
          maxLength={128}
          hint="12 to 128 characters"
          required
        />
      </Form>
    </Gate>
  )
}
