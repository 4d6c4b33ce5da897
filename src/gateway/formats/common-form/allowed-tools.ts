/** Which of its tools a model may call, for an API that has no list of those. */
interface Choice<Tool> {
  readonly tools: ReadonlyArray<Tool>
  readonly choice: "auto" | "none" | "required"
}

/** Declares the tools alone that may be called: a model calls what it knows of. */
export const allowedAlone = <Tool>(
  mode: "auto" | "required",
  tools: ReadonlyArray<Tool>,
  isAllowed: (tool: Tool) => boolean
): Choice<Tool> => {
  const allowed = tools.filter(isAllowed)
  // A conversation with calls may need declared tools, so those that may not be called stay where there are no others.
  return allowed.length === 0 ? { tools, choice: "none" } : { tools: allowed, choice: mode }
}
