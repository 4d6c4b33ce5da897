import { Context, DateTime, Effect, Layer, Option, Predicate, Schema, Struct } from "effect"
import { SqlClient, type SqlError, SqlSchema } from "effect/sql"
import { RoleId } from "../../applications/roles/domain.ts"
import { Change } from "../../audit/log/domain.ts"
import { emailKey } from "../../kernel/email.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { IntegerId, TenantId } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { rowLock } from "../../platform/database/database.ts"
import { indexedText, makeList } from "../../platform/database/list.ts"
import { readRows } from "../../platform/database/table.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { TrialUserId } from "../../trials/users/domain.ts"
import {
  accountListing,
  AccountEmailTaken,
  AccountId,
  AccountNotFound,
  AccountStatus,
  type AccountView
} from "./domain.ts"

/** An account as it is stored, with its roles; the hash of its password, null where it has none, never leaves the service. */
export const Account = Schema.Struct({
  id: AccountId,
  email: Schema.String,
  name: Schema.String,
  passwordHash: Schema.NullOr(Schema.String),
  tenantId: Schema.NullOr(TenantId),
  trialUserId: Schema.NullOr(TrialUserId),
  applicationId: Schema.NullOr(IntegerId),
  status: AccountStatus,
  expiresAt: Schema.NullOr(InstantFromDate),
  createdAt: InstantFromDate,
  createdBy: Schema.String,
  lastSignInAt: Schema.NullOr(InstantFromDate),
  invitationExpiresAt: Schema.NullOr(InstantFromDate),
  roleIds: Schema.Array(RoleId),
  roleNames: Schema.Array(Schema.String)
})
export type Account = typeof Account.Type
export type NewAccount = Omit<Account, "id" | "lastSignInAt" | "invitationExpiresAt" | "roleNames">

/** What a sign-in needs of an account; read past row-level security, since the tenant is not known yet. */
export const SignInCandidate = Schema.Struct({
  id: AccountId,
  passwordHash: Schema.NullOr(Schema.String),
  tenantId: Schema.NullOr(TenantId),
  tenantStatus: Schema.NullOr(Schema.String),
  status: AccountStatus,
  trialUserId: Schema.NullOr(TrialUserId),
  expiresAt: Schema.NullOr(InstantFromDate)
})
export type SignInCandidate = typeof SignInCandidate.Type

const accountColumns = `t.*,
  ARRAY(SELECT r.role_id FROM account_roles r WHERE r.account_id = t.id ORDER BY r.role_id) AS role_ids,
  ARRAY(SELECT o.name FROM account_roles r JOIN roles o ON o.id = r.role_id WHERE r.account_id = t.id ORDER BY r.role_id)
    AS role_names,
  (SELECT i.expires_at FROM account_invitations i WHERE i.account_id = t.id) AS invitation_expires_at`

export class AccountsRepository extends Context.Service<AccountsRepository>()("app/people/AccountsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const columns = sql.literal(accountColumns)
    const selectCandidates = SqlSchema.findAll({
      Request: Schema.Struct({ email: Schema.String, tenantId: Schema.NullOr(TenantId) }),
      Result: SignInCandidate,
      execute: ({ email, tenantId }) => sql`SELECT * FROM accounts_by_email(${emailKey(email)}, ${tenantId}::uuid)`
    })
    const selectOne = SqlSchema.findOneOption({
      Request: AccountId,
      Result: Account,
      execute: (id) =>
        Effect.flatMap(rowLock(sql, "t"), (lock) => sql`SELECT ${columns} FROM accounts t WHERE t.id = ${id} ${lock}`)
    })
    const selectLocked = SqlSchema.findOneOption({
      Request: AccountId,
      Result: Account,
      execute: (id) => sql`SELECT ${columns} FROM accounts t WHERE t.id = ${id} FOR UPDATE OF t`
    })
    const page = makeList(sql, readRows(Account), accountListing, {
      from: "accounts",
      columns: accountColumns,
      hasTenant: true,
      text: indexedText
    })
    const insertOne = SqlSchema.findOne({
      Request: Schema.Struct({
        ...Struct.omit(Account.fields, ["id", "lastSignInAt", "invitationExpiresAt", "roleIds", "roleNames"]),
        emailKey: Schema.String
      }),
      Result: Schema.Struct({ id: AccountId }),
      execute: (row) => sql`INSERT INTO accounts ${sql.insert(row)} RETURNING id`
    })
    const setRoles = Effect.fnUntraced(function* (account: Pick<Account, "id" | "tenantId" | "roleIds">) {
      yield* sql`DELETE FROM account_roles WHERE account_id = ${account.id}`
      yield* sql`
          INSERT INTO account_roles (account_id, role_id, tenant_id)
          SELECT ${account.id}, role_id, ${account.tenantId} FROM unnest(${account.roleIds}::integer[]) AS role_id`
    })

    const found = Effect.flatMap(
      Option.match({
        onNone: () => Effect.fail(new AccountNotFound({})),
        onSome: (account: Account) => Effect.succeed(account)
      })
    )

    return {
      candidates: Effect.fn("AccountsRepository.candidates")((email: string, tenantId: TenantId | null) =>
        Effect.orDie(selectCandidates({ email, tenantId }))
      ),
      list: Effect.fn("AccountsRepository.list")(
        ({ tenantId }: { readonly tenantId?: TenantId | undefined }, request: ListRequest<AccountId>) =>
          page(tenantId === undefined ? [] : [sql`t.tenant_id = ${tenantId}`], request)
      ),
      get: Effect.fn("AccountsRepository.get")((id: AccountId) => found(Effect.orDie(selectOne(id)))),
      /** The row locked FOR UPDATE until the transaction ends. */
      lock: Effect.fn("AccountsRepository.lock")((id: AccountId) =>
        Change.use(() => found(Effect.orDie(selectLocked(id))))
      ),
      /** Whether the installation has an account at all; asked in the name of all tenants. */
      exists: sql`SELECT 1 FROM accounts LIMIT 1`.values.pipe(
        Effect.map((rows) => rows.length > 0),
        Effect.orDie
      ),
      insert: Effect.fn("AccountsRepository.insert")(function* ({ roleIds, ...account }: NewAccount) {
        yield* Change
        const { id } = yield* insertOne({ ...account, emailKey: emailKey(account.email) }).pipe(
          Effect.catchReasons("SqlError", { UniqueViolation: emailTaken, ConstraintError: tenantGone }),
          Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die, NoSuchElementError: Effect.die })
        )
        yield* Effect.orDie(setRoles({ id, tenantId: account.tenantId, roleIds }))
        return yield* Effect.orDie(found(Effect.orDie(selectOne(id))))
      }),
      update: Effect.fn("AccountsRepository.update")(function* (account: Account) {
        yield* Change
        yield* sql`
            UPDATE accounts SET ${sql.update({
              email: account.email,
              emailKey: emailKey(account.email),
              name: account.name,
              passwordHash: account.passwordHash,
              trialUserId: account.trialUserId,
              status: account.status
            })} WHERE id = ${account.id}`.pipe(
          Effect.catchReason("SqlError", "UniqueViolation", emailTaken),
          Effect.catchTag("SqlError", Effect.die)
        )
        yield* Effect.orDie(setRoles(account))
        return yield* Effect.orDie(found(Effect.orDie(selectOne(account.id))))
      }),
      /** Records that a principal has set the password of an account, and so may act as it. */
      heldBy: Effect.fn("AccountsRepository.heldBy")((id: AccountId, principal: string) =>
        Change.use(() =>
          sql`
              INSERT INTO principal_holders ${sql.insert({ principal: `account:${id}`, holder: principal })}
              ON CONFLICT DO NOTHING`.pipe(Effect.asVoid, Effect.orDie)
        )
      ),
      /** Notes the last sign-in. */
      touch: Effect.fn("AccountsRepository.touch")(({ id, lastSignInAt }: Pick<Account, "id" | "lastSignInAt">) =>
        Change.use(() =>
          sql`
              UPDATE accounts SET last_sign_in_at = ${lastSignInAt === null ? null : DateTime.toDateUtc(lastSignInAt)}
              WHERE id = ${id}`.pipe(Effect.asVoid, Effect.orDie)
        )
      ),
      delete: Effect.fn("AccountsRepository.delete")((id: AccountId) =>
        Change.use(() => Effect.orDie(Effect.asVoid(sql`DELETE FROM accounts WHERE id = ${id}`)))
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

const emailTaken = (reason: SqlError.UniqueViolation) =>
  reason.constraint === "accounts_email" ? Effect.fail(new AccountEmailTaken({})) : Effect.die(reason)

const tenantGone = (reason: SqlError.ConstraintError) =>
  Predicate.hasProperty(reason.cause, "constraint") && reason.cause.constraint === "accounts_tenant_id_fkey"
    ? Effect.fail(new TenantNotFound({}))
    : Effect.die(reason)

/** An account as the API shows it. */
export const toResponse = ({ invitationExpiresAt, ...account }: Account): AccountView => ({
  ...Struct.omit(account, ["passwordHash"]),
  ...(invitationExpiresAt === null ? {} : { invitationExpiresAt })
})
