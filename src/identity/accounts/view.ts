import { Struct } from "effect"
import { type AccountView } from "./domain.ts"
import { type Account } from "./repository.ts"

/** An account as the API shows it. */
export const toResponse = (account: Account): AccountView => Struct.omit(account, ["passwordHash"])
