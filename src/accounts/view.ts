import { type AccountView } from "./domain.ts"
import { type Account } from "./repository.ts"

/** An account as the API shows it. */
export const viewOf = ({ passwordHash: _, ...account }: Account): AccountView => account
