import { isStorable } from "../text.ts"

/** Whether `jsonb` can store a value that is nested at most `depth` levels deep, so that walking it cannot exhaust the stack. */
export const isStorableJson = (value: unknown, depth: number): boolean => {
  if (typeof value === "string") return isStorable(value)
  if (typeof value === "number") return Number.isFinite(value)
  if (typeof value !== "object" || value === null) return true
  if (depth === 0) return false
  return Object.entries(value).every(([name, inner]) => isStorable(name) && isStorableJson(inner, depth - 1))
}
