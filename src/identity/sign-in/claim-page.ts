import { Effect, Layer } from "effect"
import { Digest } from "effect/crypto"
import { HttpRouter } from "effect/http"
import { Settings } from "../../platform/settings/settings.ts"
import { htmlPage } from "../../platform/http/html-page.ts"

const style = `
:root { color-scheme: light } body { max-width: 24rem; color: #1a1a1a }
label { display: block; margin: 1rem 0 .25rem; font-weight: 600 }
input { width: 100%; box-sizing: border-box; padding: .5rem; font: inherit; border: 1px solid #767676; border-radius: 4px }
button { margin-top: 1.5rem; padding: .5rem 1.25rem; font: inherit; border: 0; border-radius: 4px; background: #1d4ed8; color: #fff }
button:disabled { background: #767676 }
small { color: #595959 } [hidden] { display: none } #outcome { margin-top: 1rem } .bad { color: #b00020 }
`

const script = `
const form = document.querySelector("form")
const outcome = document.querySelector("#outcome")
const token = location.hash.slice(1)
history.replaceState(null, "", location.pathname)
const say = (text, isBad) => {
  outcome.textContent = text
  outcome.className = isBad ? "bad" : ""
}
if (token === "") {
  form.hidden = true
  say("This page needs the whole link. A start in Development prints it, and npm run operator -- claim does.", true)
}
form.addEventListener("submit", async (event) => {
  event.preventDefault()
  const button = form.querySelector("button")
  button.disabled = true
  say("One moment …")
  const { email, name, password } = Object.fromEntries(new FormData(form))
  try {
    const answer = await fetch("api/auth/claim", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ token, email, name, password })
    })
    const body = await answer.json()
    if (answer.ok) {
      form.hidden = true
      document.querySelector("#next").hidden = false
      return say("You are signed in as " + body.account.email + ", an Administrator of this installation.")
    }
    const faults = (body.errors ?? []).map((fault) => fault.path.at(-1) + ": " + fault.message)
    say(faults.length > 0 ? faults.join("; ") : body.detail, true)
  } catch {
    say("The service cannot be reached.", true)
  }
  button.disabled = false
})
`

const tryTheApi = `
<li><a href="swagger#/API%20keys/apiKeys.create">Try the API</a>: create an API key for your programs</li>`

const page = (api: string) => `<h1>Claim this installation</h1>
<p>Make the first account. It is an Administrator.</p>
<form>
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="username" required autofocus>
<label for="name">Name</label>
<input id="name" name="name" autocomplete="name" maxlength="100" required>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="new-password" minlength="12" maxlength="128" required>
<small>12 to 128 characters</small><br>
<button>Make the account</button>
</form>
<p id="outcome" role="status"></p>
<section id="next" hidden>
<h2>Next</h2>
<p>This browser is signed in, so its requests run as you.</p>
<ul>${api}
<li><a href="api/auth/me">See who you are</a> and what you may do</li>
<li><a href="./">See what else is here</a></li>
</ul>
</section>
<script>${script}</script>`

/** The page behind the link of the first run. The token is behind the #, so it is in no request and no log. */
export const ClaimPageLayer = Layer.unwrap(
  Effect.gen(function* () {
    const digest = yield* Digest.Digest
    const sha256 = yield* Effect.orDie(digest.digest(Digest.sha256, new TextEncoder().encode(script)))
    const { api } = yield* Settings
    const answer = htmlPage(
      "Claim this installation · Application Manager",
      page(api.swagger.enabled ? tryTheApi : ""),
      {
        scriptHashes: [Buffer.from(sha256).toString("base64")],
        style
      }
    )
    return HttpRouter.add("GET", "/claim", Effect.succeed(answer))
  })
)
