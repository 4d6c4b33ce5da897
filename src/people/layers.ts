import { Layer } from "effect"
import { AccountsHandlers } from "./accounts/handlers.ts"
import { AccountInvitations } from "./accounts/invitations.ts"
import { Passwords } from "./accounts/passwords.ts"
import { Accounts } from "./accounts/service.ts"
import { SignInAccounts } from "./accounts/sign-in-accounts.ts"
import { IdentityProvidersHandlers } from "./identity-providers/handlers.ts"
import { IdentityProviders } from "./identity-providers/service.ts"
import { LoginThrottle } from "./login-throttle/service.ts"
import { OidcSignInHandlers } from "./oidc-sign-in/handlers.ts"
import { OidcSignIn } from "./oidc-sign-in/service.ts"
import { SignInHandlers } from "./sign-in/handlers.ts"
import { ClaimLinks, InitialAdminSetup } from "./sign-in/initial-admin-setup.ts"
import { InvitationAcceptance } from "./sign-in/invitation-acceptance.ts"
import { OwnAccount } from "./sign-in/own-account.ts"
import { SignIn } from "./sign-in/service.ts"
import { SessionIssuer } from "./sign-in/session-issuer.ts"
import { SessionTokens, SessionTokenCheckLayer } from "./sign-in/session-tokens.ts"
import { AccountSessionTermination } from "./sign-in/termination.ts"

/** Sign-in above accounts, whose sessions end with them by a port; each line needs those below it. */
export const layer = Layer.mergeAll(
  SignIn.layer,
  OidcSignIn.layer,
  OwnAccount.layer,
  InitialAdminSetup.layer,
  InvitationAcceptance.layer,
  AccountInvitations.layer,
  ClaimLinks.layer,
  SessionTokenCheckLayer
).pipe(
  Layer.provideMerge(Layer.mergeAll(SessionIssuer.layer, SessionTokens.layer, LoginThrottle.layer)),
  Layer.provideMerge(Layer.mergeAll(Accounts.layer, SignInAccounts.layer, IdentityProviders.layer)),
  Layer.provideMerge(Layer.merge(AccountSessionTermination.layer, Passwords.layer))
)

export const handlers = Layer.mergeAll(AccountsHandlers, SignInHandlers, IdentityProvidersHandlers, OidcSignInHandlers)
