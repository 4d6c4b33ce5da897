import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { fastGroupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { SignInApi } from "./api.ts"
import { InitialAdminSetup } from "./initial-admin-setup.ts"
import { InvitationAcceptance } from "./invitation-acceptance.ts"
import { OwnAccount } from "./own-account.ts"
import { SignIn } from "./service.ts"
import { type Issued } from "./session-issuer.ts"

const answered = ({ cookie, signedIn }: Issued) =>
  HttpApiSchema.withHeaders({ body: signedIn, headers: { "set-cookie": cookie } })

const answeredNew = ({ cookie, signedIn }: Issued) =>
  HttpApiSchema.withHeaders({
    body: signedIn,
    headers: { location: `/api/accounts/${signedIn.account.id}`, "set-cookie": cookie }
  })

export const SignInHandlers = fastGroupHandlers(
  SignInApi,
  Effect.fn(function* (handlers) {
    const setup = yield* InitialAdminSetup
    const invitations = yield* InvitationAcceptance
    const own = yield* OwnAccount
    const signIn = yield* SignIn
    return handlers.handleAll({
      login: ({ payload, request }) => Effect.map(signIn.login(payload, request), answered),
      refresh: ({ request }) => Effect.map(signIn.refresh(request), answered),
      logout: ({ request }) =>
        Effect.map(signIn.logout(request), (cookie) =>
          HttpApiSchema.withHeaders({ body: undefined, headers: { "set-cookie": cookie } })
        ),
      claim: ({ payload, request }) => Effect.map(setup.claim(payload, request), answeredNew),
      installation: () => setup.installation,
      acceptInvitation: ({ payload, request }) => Effect.map(invitations.accept(payload, request), answered),
      me: () => own.me,
      changePassword: ({ payload }) => Effect.map(own.changePassword(payload), answered),
      listSessions: ({ query }) => own.sessions(query.cursor, query.limit ?? pageLimitDefault),
      endSession: ({ params }) => own.endSession(params.id),
      endOtherSessions: () => own.endOtherSessions
    })
  })
)
