import { Predicate } from "effect"

/** The name of the constraint that a statement ran against; undefined when the database named none. */
export const violatedConstraint = (reason: { readonly cause: unknown }): unknown =>
  Predicate.hasProperty(reason.cause, "constraint") ? reason.cause.constraint : undefined
