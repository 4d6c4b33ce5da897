import { Brand } from "effect"

/**
 * What happened to what: `actionType` is PascalCase, entity and past verb. `auditActions` alone makes one, so that no entry is
 * written of an action that lists do not have.
 */
export type AuditAction = Brand.Branded<{ readonly actionType: string; readonly entityType: string }, "AuditAction">
const auditAction = Brand.nominal<AuditAction>()

const declared = new Map<string, AuditAction>()

/** Declares the actions that a feature logs; `GET /api/audit-logs/types` lists every declared one. */
export const auditActions = <const Name extends string>(entityType: string, names: ReadonlyArray<Name>) => {
  const actions: Partial<Record<Name, AuditAction>> = {}
  for (const actionType of names) {
    const action = auditAction({ actionType, entityType })
    declared.set(`${entityType} ${actionType}`, action)
    actions[actionType] = action
  }
  return actions as Readonly<Record<Name, AuditAction>>
}

export const declaredActions = (): ReadonlyArray<AuditAction> =>
  [...declared.values()].toSorted((a, b) => (a.actionType < b.actionType ? -1 : 1))
