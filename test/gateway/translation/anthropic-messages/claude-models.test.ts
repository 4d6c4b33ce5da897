import { assert, describe, it } from "@effect/vitest"
import { knownModel } from "../../../support/formats.ts"

const thinksAdaptively = (model: string) => {
  const { thinking, thinkingBy } = knownModel(model).traits
  return thinking !== "none" && thinkingBy === "adaptive"
}

const older = [
  "claude-2.1",
  "anthropic.claude-v2:1",
  "claude-instant-1.2",
  "claude-3-opus-latest",
  "claude-3-5-sonnet-20241022",
  "anthropic/claude-3.7-sonnet",
  "anthropic.claude-3-5-sonnet-20240620-v1:0",
  "claude-4-opus-20250514",
  "claude-opus-4-20250514",
  "claude-opus-4@20250514",
  "us.anthropic.claude-opus-4-1-20250805-v1:0",
  "claude-haiku-4-5-20251001",
  "claude-sonnet-4-5",
  "claude-opus-4-6",
  "claude-opus-4-6-v1",
  "anthropic/claude-sonnet-4.6"
]

const newer = [
  "claude-opus-4-7",
  "anthropic.claude-opus-4-7-v1:0",
  "anthropic/claude-opus-4.8",
  "Claude-Opus-4-8",
  "claude-opus-4-10",
  "claude-sonnet-5",
  "claude-opus-5-20260801",
  "claude-fable-5-1",
  "claude-haiku-5-5",
  "claude-mythos-preview",
  "claude-opus-latest",
  "claude"
]

describe("a model of Anthropic's, by its name", () => {
  it("thinks adaptively from Opus 4.7 on, and where nobody knows it", () => {
    for (const model of newer) assert.isTrue(thinksAdaptively(model), model)
  })

  it("thinks by a budget before, as others do who speak its dialect", () => {
    for (const model of [...older, "deepseek-chat", "kimi-k2-5", "glm-5"])
      assert.isFalse(thinksAdaptively(model), model)
  })
})
