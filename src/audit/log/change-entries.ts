import { Schema } from "effect"
import { type AuditAction } from "../../kernel/authority/audit-action.ts"
import { type AuditDraft, type Changed } from "./domain.ts"

type Owner = Pick<AuditDraft, "entityId" | "tenantId" | "applicationId">

/** Finished changes of one kind of thing: an entry stores what `schema` encodes of it, under the ids that `owner` gives. */
export const changesOf = <A, I extends object>(schema: Schema.Codec<A, I>, owner: (thing: A) => Owner) => {
  const encode = Schema.encodeSync(schema)
  const entry = (action: AuditAction, thing: A, states: { readonly before?: A; readonly after?: A }): AuditDraft => ({
    action,
    ...owner(thing),
    ...(states.before === undefined ? {} : { before: encode(states.before) }),
    ...(states.after === undefined ? {} : { after: encode(states.after) })
  })
  return {
    created: (action: AuditAction, after: A, more: ReadonlyArray<AuditDraft> = []): Changed<A> => ({
      value: after,
      entries: [entry(action, after, { after }), ...more]
    }),
    updated: (action: AuditAction, before: A, after: A, more: ReadonlyArray<AuditDraft> = []): Changed<A> => ({
      value: after,
      entries: [entry(action, after, { before, after }), ...more]
    }),
    deleted: (action: AuditAction, before: A, more: ReadonlyArray<AuditDraft> = []): Changed<void> => ({
      value: undefined,
      entries: [entry(action, before, { before }), ...more]
    }),
    /** Whether an entry would store the same of both. */
    areSame: (before: A, after: A): boolean => JSON.stringify(encode(before)) === JSON.stringify(encode(after))
  }
}

/** A change that changed nothing: no entry records it. */
export const unchanged = <A>(value: A): Changed<A> => ({ value, entries: [] })
