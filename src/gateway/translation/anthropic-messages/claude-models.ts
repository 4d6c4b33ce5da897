/** The version in a model's name, before or after its family, under any provider's naming; a date does not match. */
const version = /claude-(?:[a-z]+-)?v?(\d+)(?:[-.](\d{1,2}))?(?!\d)/

/**
 * Whether a Claude model decides for itself how much to think. Claude Opus 4.7 and later take an effort and reject thinking
 * budgets and sampling parameters. A Claude model under an unrecognized name is treated as a new one.
 */
export const thinksAdaptively = (model: string): boolean => {
  const name = model.toLowerCase()
  if (!name.includes("claude")) return false
  const [, major, minor = "0"] = version.exec(name) ?? []
  return major === undefined || Number(major) > 4 || (Number(major) === 4 && Number(minor) >= 7)
}
