import { AccountsApi } from "./accounts/api.ts"
import { IdentityProvidersApi } from "./identity-providers/api.ts"
import { OidcSignInApi } from "./oidc-sign-in/api.ts"
import { SignInApi } from "./sign-in/api.ts"

export const groups = [IdentityProvidersApi, AccountsApi, SignInApi, OidcSignInApi] as const
