import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requiresCredential } from "../../kernel/authority/access.ts"
import { Forbidden, RateLimited, Unauthenticated } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { AccountEmailTaken } from "../accounts/domain.ts"
import {
  AccountSession,
  AccountSessionId,
  AccountSessionNotFound,
  Claim,
  ClaimInvalid,
  CurrentPasswordWrong,
  Installation,
  InvitationAccepted,
  InvitationInvalid,
  Login,
  Me,
  PasswordChange,
  SignedIn
} from "./domain.ts"

const position = cursor(AccountSessionId)
const setCookie = {
  "set-cookie": Schema.String.annotate({
    description: "The session's cookie: am_session, over https __Host-am_session",
    examples: ["am_session=amt_4mXo1ExampleOfATokenThatNobodyHasAnywhere0000; Path=/; HttpOnly; SameSite=Lax"]
  })
}
const Answer = HttpApiSchema.WithHeaders(SignedIn, setCookie)
const own = requiresCredential({ accountsOnly: true })

export class SignInApi extends HttpApiGroup.make("auth")
  .add(
    endpoint.post("login", "/login", {
      summary: "Sign in",
      description:
        "Answers the session's token in the body and as an HttpOnly cookie. An unknown address and a wrong password get one answer; after five failures the next tries have to wait (429). No credential.",
      payload: Login,
      success: Answer,
      error: [Unauthenticated, Forbidden, RateLimited]
    }),
    endpoint.post("refresh", "/refresh", {
      summary: "Refresh the session",
      description:
        "Puts a new token in the place of the one that the request came with (bearer or cookie), and restarts the idle time, within the life of the session. The old token works 10 seconds more; when it comes back later, the session ends.",
      success: Answer,
      error: [Unauthenticated, Forbidden, RateLimited]
    }),
    endpoint.post("logout", "/logout", {
      summary: "Sign out",
      description: "Ends the session that the request came with, if there is one, and takes the cookie away.",
      success: HttpApiSchema.WithHeaders(HttpApiSchema.NoContent, setCookie),
      error: [Forbidden, RateLimited]
    }),
    endpoint.post("claim", "/claim", {
      summary: "Claim the installation",
      description:
        "Makes the first account, an Administrator, and signs it in. The token is in the link that the start prints while there is no account; it works once, for half an hour.",
      payload: Claim,
      success: HttpApiSchema.WithHeaders(SignedIn.pipe(HttpApiSchema.status(201)), {
        location: Schema.String.annotate({ description: "Path of the new account", examples: ["/api/accounts/42"] }),
        ...setCookie
      }),
      error: [ClaimInvalid, Forbidden, RateLimited, AccountEmailTaken]
    }),
    endpoint.get("installation", "/installation", {
      summary: "Whether the installation is claimed",
      description:
        "For the page to sign in, which says how to make the first account while there is none. No credential.",
      success: Installation,
      error: RateLimited
    }),
    endpoint.post("acceptInvitation", "/invitation", {
      summary: "Accept an invitation",
      description:
        "Gives the account of an invitation its password, ends its other sessions, and signs it in. The token is in the link that an operator sent; it works once. No credential.",
      payload: InvitationAccepted,
      success: Answer,
      error: [InvitationInvalid, Forbidden, RateLimited]
    }),
    endpoint
      .get("me", "/me", {
        summary: "Who am I",
        description: "The caller, whatever its credential: its name, what it may do, its tenant, its account.",
        access: requiresCredential(),
        success: Me
      })
      .middleware(Access),
    endpoint
      .patch("changePassword", "/password", {
        summary: "Change one's password",
        description:
          "Ends every other session of the account; this one gets a new token, and the old one ends at once.",
        access: own,
        payload: PasswordChange,
        success: Answer,
        error: CurrentPasswordWrong
      })
      .middleware(Access),
    endpoint
      .get("listSessions", "/sessions", {
        summary: "List one's sessions",
        description: "Where the account is signed in, the newest first.",
        access: own,
        query: {
          ...pageQuery(position)
        },
        success: page(AccountSession, position)
      })
      .middleware(Access),
    endpoint
      .delete("endOtherSessions", "/sessions", {
        summary: "End one's other sessions",
        description: "Every session of the account but the one that the request came with.",
        access: own
      })
      .middleware(Access),
    endpoint
      .delete("endSession", "/sessions/:id", {
        summary: "End one of one's sessions",
        description: "This replica refuses its tokens at once, the others within a second.",
        access: own,
        params: { id: AccountSessionId },
        error: AccountSessionNotFound
      })
      .middleware(Access)
  )
  .prefix("/api/auth")
  .annotateMerge(
    OpenApi.annotations({ title: "Sign-in", description: "How accounts sign in, stay signed in and sign out." })
  ) {}
