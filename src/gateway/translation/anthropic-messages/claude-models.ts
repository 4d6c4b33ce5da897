/** The version in a model's name, before or behind its family, whoever serves it; a date is none. */
const version = /claude-(?:[a-z]+-)?v?(\d+)(?:[-.](\d{1,2}))?(?!\d)/

/**
 * Whether a model is one of those of Anthropic that decide by themselves how much to think: from Claude Opus 4.7 on they are
 * told an effort, and refuse budgets and sampling. A Claude by another name is taken for a new one.
 */
export const thinksAdaptively = (model: string): boolean => {
  const name = model.toLowerCase()
  if (!name.includes("claude")) return false
  const [, major, minor = "0"] = version.exec(name) ?? []
  return major === undefined || Number(major) > 4 || (Number(major) === 4 && Number(minor) >= 7)
}
