import { Result } from "effect"
import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type ChatRequest, readChunk, readCompletion } from "../common-form/domain.ts"
import { type Translation } from "../format.ts"
import { decoding } from "../request-faults.ts"
import { answerToCompletion, completionToAnswer } from "./answers.ts"
import { chatToRequest } from "./chat-to-request.ts"
import { countedRequest } from "./counts.ts"
import { GenerateRequest, readAnswer } from "./domain.ts"
import { requestToChat } from "./request-to-chat.ts"
import { AnswersToChunks, AnswerWriter, ChunksToAnswers } from "./stream.ts"
import { toAnswerUsage } from "./usage.ts"

const decode = decoding(GenerateRequest)

/** The limit of a request that has none: Gemini's default is the model's own. */
const withLimit = (request: Json, maxOutputTokens: number): Json => {
  const config = request.generationConfig as Json | undefined
  return { ...request, generationConfig: { maxOutputTokens, ...config } }
}

export const geminiTranslation: Translation = {
  ownNames: {
    frequency_penalty: "generationConfig.frequencyPenalty",
    logprobs: "generationConfig.responseLogprobs",
    max_completion_tokens: "generationConfig.maxOutputTokens",
    n: "generationConfig.candidateCount",
    presence_penalty: "generationConfig.presencePenalty",
    reasoning_effort: "generationConfig.thinkingConfig",
    response_format: "generationConfig.responseSchema",
    seed: "generationConfig.seed",
    stop: "generationConfig.stopSequences",
    temperature: "generationConfig.temperature",
    tool_choice: "toolConfig",
    top_p: "generationConfig.topP"
  },
  requestToCommon: ({ body, model, streams }, omissions) => {
    const given = countedRequest(body).body
    omissions.unread(given, GenerateRequest)
    return Result.flatMap(decode(given), (request) =>
      requestToChat(request, { model: String(model), stream: streams }, omissions)
    )
  },
  requestFromCommon: (chat, target, { limit }, omissions) =>
    Result.map(chatToRequest(chat as ChatRequest, target, omissions), (request) =>
      limit === undefined ? request : withLimit(request, limit)
    ),
  answerToCommon: (answer, head) => answerToCompletion(readAnswer(answer) ?? {}, head),
  answerFromCommon: (completion, head, usage) => ({
    ...completionToAnswer(readCompletion(completion) ?? {}, head),
    usageMetadata: toAnswerUsage(usage)
  }),
  streamToCommon: (head) => {
    const chunks = new AnswersToChunks(head)
    return { push: (value) => chunks.push(readAnswer(value) ?? {}), end: () => chunks.end() }
  },
  streamFromCommon: (head) => {
    const answers = new ChunksToAnswers(head)
    const writer = new AnswerWriter("sse")
    return {
      push: (chunk) => writer.write(answers.push(readChunk(chunk) ?? {})),
      end: (usage) => writer.write(answers.end(usage))
    }
  }
}
