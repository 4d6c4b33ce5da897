import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { zodTextFormat } from "openai/helpers/zod"
import { z } from "zod"
import { registration } from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { charges, configure, costNanoUsd, model, prices, provider, spender } from "../../support/gateway.ts"
import { json, sse, startProvider } from "../../support/provider.ts"
import { auditOf, make } from "../../support/scenarios.ts"
import { serviceLayer, sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { anthropicVendor, calledWith, openAiVendor, said, thought, used } from "../../support/vendors.ts"

const setUp = Effect.gen(function* () {
  const service = yield* TestService
  const openai = yield* startProvider(openAiVendor)
  const anthropic = yield* startProvider(anthropicVendor)
  yield* configure(
    service,
    [provider("oa", openai), provider("an", anthropic, { dialect: "anthropic", baseUrl: anthropic.url, mcpServers })],
    [
      model("gpt", ["oa"]),
      model("claude", ["an"], {
        contextTokens: 10_000,
        prices: { ...prices, toolUses: { webSearch: 0.01, codeExecution: 0.05 } }
      }),
      model("unknown-fees", ["an"]),
      model("forgetful", ["oa"], { contextTokens: 200 })
    ]
  )
  const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
  const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
  return { anthropic, client, key, openai, service, tenantId }
})

const mcpServers = [{ urlPrefix: "https://example.com/", maxSteps: 10 }]

const weather = {
  type: "function" as const,
  name: "weather",
  description: "The weather of a city",
  strict: false,
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
}

const long = "x".repeat(600)

const ask = <A>(call: () => PromiseLike<A>) => Effect.promise(() => Promise.resolve(call()))
const failure = (call: () => PromiseLike<unknown>) =>
  Effect.promise(() =>
    Promise.resolve(call()).then(
      () => assert.fail("it was answered"),
      (error: InstanceType<typeof OpenAI.APIError>) => error
    )
  )

/** The turn after a response that called the tool. */
const next = (output: ReadonlyArray<object>): OpenAI.Responses.ResponseInput => [
  { role: "user", content: "Hi" },
  ...(output as OpenAI.Responses.ResponseInput),
  { type: "function_call_output", call_id: "toolu_1", output: "Rain" }
]

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the Responses API", (it) => {
  for (const name of ["gpt", "claude"]) {
    it.effect(`answers the SDK's create from ${name}, charged by its usage`, () =>
      Effect.gen(function* () {
        const { client, service, tenantId } = yield* setUp
        const response = yield* ask(() =>
          client.responses.create({ model: name, instructions: "Be brief.", input: "Hi", max_output_tokens: 100 })
        )
        assert.strictEqual(response.output_text, said)
        assert.strictEqual(response.status, "completed")
        assert.strictEqual(response.model, name)
        assert.match(response.id, /^resp_[0-9a-f]{32}$/)
        assert.deepInclude(response.usage, {
          input_tokens: used.input,
          output_tokens: used.output,
          total_tokens: used.input + used.output
        })
        assert.strictEqual(response.usage?.input_tokens_details.cached_tokens, used.cached)
        assert.deepStrictEqual(yield* charges(service, tenantId), [
          { amount: String(costNanoUsd), state: "settled", method: "provider_usage" }
        ])
      }).pipe(Effect.scoped)
    )

    it.effect(`streams from ${name} as the SDK's stream helper reads it`, () =>
      Effect.gen(function* () {
        const { client, service, tenantId } = yield* setUp
        const [types, sequence, final] = yield* ask(async () => {
          const stream = client.responses.stream({
            model: name,
            input: [{ role: "user", content: [{ type: "input_text", text: "Hi" }] }],
            reasoning: { effort: "high" },
            max_output_tokens: 5000
          })
          const seen: Array<string> = []
          const numbers: Array<number> = []
          for await (const event of stream) {
            seen.push(event.type)
            numbers.push(event.sequence_number)
          }
          return [seen, numbers, await stream.finalResponse()] as const
        })
        assert.strictEqual(final.output_text, said)
        assert.deepStrictEqual(
          sequence,
          sequence.map((_, index) => index)
        )
        assert.deepStrictEqual(types.slice(0, 3), [
          "response.created",
          "response.in_progress",
          "response.output_item.added"
        ])
        assert.include(types, "response.reasoning_summary_text.delta")
        assert.strictEqual(types.at(-1), "response.completed")
        const [reasoning, message] = final.output
        assert.deepInclude(reasoning, { type: "reasoning", summary: [{ type: "summary_text", text: thought }] })
        assert.strictEqual(message?.type, "message")
        assert.deepStrictEqual(yield* charges(service, tenantId), [
          { amount: String(costNanoUsd), state: "settled", method: "provider_usage" }
        ])
      }).pipe(Effect.scoped)
    )

    it.effect(`parses the structured output of ${name}, and is told that a conversation is too long`, () =>
      Effect.gen(function* () {
        const { anthropic, client, openai, service, tenantId } = yield* setUp
        const text = { format: zodTextFormat(z.object({ city: z.string() }), "place") }
        const parsed = yield* ask(() => client.responses.parse({ model: name, input: "Hi", text }))
        assert.deepStrictEqual(parsed.output_parsed, calledWith)
        const standIn = name === "gpt" ? openai : anthropic
        standIn.answer = (_, response) =>
          json(response, 400, { type: "error", error: { type: "invalid_request_error", message: "Too many tokens." } })
        const error = yield* failure(() =>
          client.responses.create({ model: name, previous_response_id: parsed.id, input: "Go on." })
        )
        assert.deepStrictEqual([error.status, error.type], [400, "invalid_request_error"])
        assert.include(error.message, "Too many tokens.")
        assert.deepStrictEqual(
          (yield* charges(service, tenantId)).map(({ state }) => state),
          ["settled", "released"]
        )
      }).pipe(Effect.scoped)
    )

    it.effect(`calls tools of ${name}, whole and streamed, and takes their outputs`, () =>
      Effect.gen(function* () {
        const { anthropic, client, openai } = yield* setUp
        const request = { model: name, input: "Hi", tools: [weather], tool_choice: "required" as const }
        const response = yield* ask(() => client.responses.create(request))
        const streamed = yield* ask(() => client.responses.stream(request).finalResponse())
        for (const { output } of [response, streamed]) {
          const [call] = output
          assert.deepInclude(call, { type: "function_call", name: "weather", status: "completed" })
          if (call?.type !== "function_call") return assert.fail()
          assert.deepStrictEqual(JSON.parse(call.arguments), calledWith)
          yield* ask(() =>
            client.responses.create({
              model: name,
              store: false,
              input: [
                { role: "user", content: "Hi" },
                call,
                { type: "function_call_output", call_id: call.call_id, output: "Rain" }
              ],
              tools: [weather]
            })
          )
          const sent = (name === "gpt" ? openai : anthropic).requests.at(-1)?.body
          const last = sent.messages.at(-1)
          if (name === "gpt") {
            assert.deepStrictEqual(last, { role: "tool", tool_call_id: call.call_id, content: "Rain" })
          } else {
            assert.deepInclude(last.content[0], { type: "tool_result", tool_use_id: call.call_id })
          }
        }
      }).pipe(Effect.scoped)
    )
  }

  it.effect("gives the model its signed thoughts back, to the caller's tenant alone", () =>
    Effect.gen(function* () {
      const { anthropic, client, openai, service } = yield* setUp
      const request = {
        input: "Hi",
        tools: [weather],
        reasoning: { effort: "high" as const },
        max_output_tokens: 50_000,
        store: false
      }
      const whole = yield* ask(() => client.responses.create({ ...request, model: "claude" }))
      const streamed = yield* ask(() => client.responses.stream({ ...request, model: "claude" }).finalResponse())
      const signed = { type: "thinking", thinking: thought, signature: "sig" }
      const sent = () => anthropic.requests.at(-1)?.body.messages[1].content
      for (const { output } of [whole, streamed]) {
        const [reasoning] = output
        if (reasoning?.type !== "reasoning") return assert.fail()
        assert.notInclude(reasoning.encrypted_content ?? "", "sig")
        yield* ask(() => client.responses.create({ ...request, model: "claude", input: next(output) }))
        assert.deepStrictEqual(sent()[0], signed)
        assert.strictEqual(sent()[1].type, "tool_use")
        assert.isDefined(anthropic.requests.at(-1)?.body.thinking)
        // Another vendor's model does without, and so does one that is not to think.
        yield* ask(() => client.responses.create({ ...request, model: "gpt", input: next(output) }))
        assert.notInclude(JSON.stringify(openai.requests.at(-1)?.body), "thinking_blocks")
        yield* ask(() =>
          client.responses.create({ model: "claude", store: false, tools: [weather], input: next(output) })
        )
        assert.strictEqual(sent()[0].type, "tool_use")
      }
      const { key } = yield* spender(service, [])
      const stranger = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
      yield* ask(() => stranger.responses.create({ ...request, model: "claude", input: next(whole.output) }))
      assert.strictEqual(sent()[0].type, "tool_use")
      const stored = yield* ask(() => client.responses.create({ ...request, model: "claude", store: true }))
      const output = { type: "function_call_output" as const, call_id: "toolu_1", output: "Rain" }
      yield* ask(() =>
        client.responses.create({ ...request, model: "claude", input: [output], previous_response_id: stored.id })
      )
      assert.deepStrictEqual(sent()[0], signed)
    }).pipe(Effect.scoped)
  )

  it.effect("gives a custom tool its text, and a function of a namespace its own name", () =>
    Effect.gen(function* () {
      const { client, openai } = yield* setUp
      openai.answer = (request, response) => {
        const tool_calls = [
          {
            id: "c1",
            type: "function",
            function: { name: "apply_patch", arguments: JSON.stringify({ input: "*** Begin" }) }
          },
          { id: "c2", type: "function", function: { name: "crm__find", arguments: "{}" } }
        ]
        const message = { role: "assistant", content: null, tool_calls }
        const body = { id: "c", choices: [{ index: 0, message, finish_reason: "tool_calls" }], usage: openAiUsage }
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body))
        assert.strictEqual(request.body.tools.length, 2)
      }
      const response = yield* ask(() =>
        client.responses.create({
          model: "gpt",
          input: "Hi",
          tools: [
            {
              type: "custom",
              name: "apply_patch",
              format: { type: "grammar", syntax: "lark", definition: "start: /./" }
            },
            { type: "namespace", name: "crm", description: "Customers", tools: [{ type: "function", name: "find" }] },
            { type: "web_search" }
          ]
        })
      )
      assert.deepInclude(response.output[0], { type: "custom_tool_call", name: "apply_patch", input: "*** Begin" })
      assert.deepInclude(response.output[1], { type: "function_call", namespace: "crm", name: "find" })
    }).pipe(Effect.scoped)
  )

  it.effect("has Anthropic run its own search, code and MCP servers, charged by use", () =>
    Effect.gen(function* () {
      const { anthropic, service } = yield* setUp
      const { key, tenantId } = yield* spender(service, [{ limit: 3 }])
      const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
      const searches = { server_tool_use: { web_search_requests: 2 } }
      anthropic.answer = ({ body }, response) =>
        json(response, 200, {
          id: "msg_1",
          type: "message",
          role: "assistant",
          model: body.model,
          stop_reason: "end_turn",
          content: [
            { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "noon" } },
            { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] },
            { type: "text", text: said }
          ],
          usage: { input_tokens: used.input, output_tokens: used.output, ...searches }
        })
      const server = { type: "mcp" as const, server_label: "docs", server_url: "https://example.com/mcp" }
      const tools = [
        { type: "web_search" as const, filters: { allowed_domains: ["example.com"] } },
        { type: "code_interpreter" as const, container: { type: "auto" as const } },
        { ...server, authorization: "token", require_approval: "never" as const },
        // Anthropic asks for no approvals, which is the default.
        server,
        { type: "image_generation" as const }
      ]
      const request = { model: "claude", input: "Hi", tools, max_output_tokens: 100, max_tool_calls: 2 }
      const { data, response } = yield* ask(() => client.responses.create(request).withResponse())
      assert.strictEqual(data.output_text, said)
      const searched = { type: "web_search_call", status: "completed" }
      const action = { type: "search", query: "noon", queries: ["noon"] }
      assert.deepInclude(data.output[0] as object, { ...searched, action })
      assert.strictEqual(response.headers.get("x-omitted-tools"), "mcp, image_generation")
      assert.notInclude(JSON.stringify(data), 'token"')
      const sent = anthropic.requests.at(-1)
      const search = { type: "web_search_20250305", name: "web_search", allowed_domains: ["example.com"] }
      assert.deepStrictEqual(sent?.body.tools, [
        { ...search, max_uses: 2 },
        { type: "code_execution_20250825", name: "code_execution" },
        { type: "mcp_toolset", mcp_server_name: "docs" }
      ])
      assert.deepStrictEqual(sent?.body.mcp_servers, [
        { type: "url", url: "https://example.com/mcp", name: "docs", authorization_token: "token" }
      ])
      assert.include(sent?.headers["anthropic-beta"], "mcp-client")
      // Where the caller sets no limit, the gateway does; a search can be forced by its older name.
      const { max_tool_calls: _, ...unlimited } = request
      const tool_choice = { type: "web_search_preview" as const }
      yield* ask(() => client.responses.create({ ...unlimited, tools: tools.slice(0, 1), tool_choice }))
      const forced = anthropic.requests.at(-1)?.body
      assert.deepStrictEqual(forced.tools, [{ ...search, max_uses: 5 }])
      assert.deepStrictEqual(forced.tool_choice, { type: "tool", name: "web_search" })
      anthropic.answer = (_, response) => {
        const query = { type: "input_json_delta", partial_json: `{"query":"noon"}` }
        const search = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} }
        sse(
          response,
          [
            { type: "message_start", message: { id: "msg_1", usage: { input_tokens: used.input, output_tokens: 1 } } },
            { type: "content_block_start", index: 0, content_block: search },
            { type: "content_block_delta", index: 0, delta: query },
            { type: "content_block_stop", index: 0 },
            { type: "content_block_start", index: 1, content_block: { type: "text", text: said } },
            { type: "content_block_stop", index: 1 },
            {
              type: "message_delta",
              delta: { stop_reason: "end_turn" },
              usage: { output_tokens: used.output, ...searches }
            },
            { type: "message_stop" }
          ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
        )
        response.end()
      }
      const [types, final] = yield* ask(async () => {
        const seen: Array<string> = []
        const stream = client.responses.stream({ ...request, tools: tools.slice(0, 1) })
        for await (const { type } of stream) seen.push(type)
        return [seen, await stream.finalResponse()] as const
      })
      assert.includeMembers(types, ["response.web_search_call.searching", "response.web_search_call.completed"])
      assert.deepInclude(final.output[0] as object, { ...searched, action })
      assert.strictEqual(final.output_text, said)
      const amount = String(used.input * 2000 + used.output * 10_000 + 2 * 10_000_000)
      const charge = { amount, state: "settled", method: "provider_usage" }
      assert.deepStrictEqual(yield* charges(service, tenantId), [charge, charge, charge])
    }).pipe(Effect.scoped)
  )

  it.effect("leaves out what only OpenAI runs and says so, and refuses it where it is forced", () =>
    Effect.gen(function* () {
      const { client } = yield* setUp
      const tools = [
        { type: "file_search" as const, vector_store_ids: ["vs_1"] },
        { type: "web_search" as const },
        weather
      ]
      const request = { model: "unknown-fees", input: "Hi", tools }
      const { response } = yield* ask(() => client.responses.create(request).withResponse())
      assert.strictEqual(response.headers.get("x-omitted-tools"), "file_search, web_search")
      for (const type of ["file_search", "web_search_preview"] as const) {
        const error = yield* failure(() => client.responses.create({ ...request, tool_choice: { type } }))
        assert.strictEqual(error.status, 400)
        assert.include(error.message, `The tool ${type} is run by OpenAI alone`)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("continues a stored conversation, across models, and shows and deletes it", () =>
    Effect.gen(function* () {
      const { anthropic, client } = yield* setUp
      const first = yield* ask(() => client.responses.create({ model: "gpt", input: "One" }))
      const second = yield* ask(() =>
        client.responses
          .stream({ model: "claude", previous_response_id: first.id, input: "Two", max_output_tokens: 100 })
          .finalResponse()
      )
      assert.strictEqual(second.previous_response_id, first.id)
      yield* ask(() => client.responses.create({ model: "claude", previous_response_id: second.id, input: "Three" }))
      const words = anthropic.requests
        .at(-1)
        ?.body.messages.map(({ content }: { content: ReadonlyArray<{ text: string }> }) => content[0]?.text)
      assert.deepStrictEqual(words, ["One", said, "Two", said, "Three"])
      const item = first.output[0]
      yield* ask(() =>
        client.responses.create({
          model: "claude",
          input: [
            { type: "message", role: "user", content: "One" },
            { type: "item_reference", id: item?.id ?? "" },
            { type: "message", role: "user", content: "Two" }
          ]
        })
      )
      assert.lengthOf(anthropic.requests.at(-1)?.body.messages, 3)
      const shown = yield* ask(() => client.responses.retrieve(second.id))
      assert.strictEqual(shown.output_text, said)
      const items = yield* ask(() => client.responses.inputItems.list(second.id))
      assert.deepInclude(items.data[0] as object, { role: "user", content: "Two" })
      yield* ask(() => client.responses.delete(first.id))
      assert.deepStrictEqual(yield* auditOf("GatewayResponse", first.id), ["GatewayResponseDeleted"])
      const gone = yield* failure(() => client.responses.retrieve(first.id))
      assert.strictEqual(gone.status, 404)
      // What follows a deleted turn cannot be continued.
      const broken = yield* failure(() =>
        client.responses.create({ model: "gpt", previous_response_id: second.id, input: "Four" })
      )
      assert.strictEqual(broken.status, 404)
      assert.strictEqual(broken.code, "previous_response_not_found")
    }).pipe(Effect.scoped)
  )

  it.effect("leaves the oldest items out where it is asked to, with the outputs of calls that are left out", () =>
    Effect.gen(function* () {
      const { client, openai } = yield* setUp
      const call = { type: "function_call" as const, call_id: "call_1", name: "weather", arguments: `{"a":"${long}"}` }
      const output = { type: "function_call_output" as const, call_id: "call_1", output: "Rain" }
      const input: OpenAI.Responses.ResponseInput = [
        { role: "user", content: "Hi" },
        call,
        output,
        { role: "user", content: "Hi" }
      ]
      const request = { model: "forgetful", input, max_output_tokens: 50 }
      const sent = () => openai.requests.at(-1)?.body.messages.map(({ role }: { readonly role: string }) => role)
      yield* ask(() => client.responses.create({ ...request, truncation: "auto" }))
      assert.deepStrictEqual(sent(), ["user"])
      yield* ask(() => client.responses.create(request))
      assert.deepStrictEqual(sent(), ["user", "assistant", "tool", "user"])
    }).pipe(Effect.scoped)
  )

  it.effect("stores encrypted, of a tenant alone, and nothing with store: false", () =>
    Effect.gen(function* () {
      const { client, service } = yield* setUp
      const stored = yield* ask(() => client.responses.create({ model: "gpt", input: "A secret word" }))
      const rows = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly row: string }>`SELECT encode(sealed, 'escape') AS row FROM gateway_responses`
      )
      assert.isNotEmpty(rows)
      for (const { row } of rows) assert.notInclude(row, "secret")
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["llm:*"], { tenantId })
      const other = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
      for (const call of [
        () => other.responses.retrieve(stored.id),
        () => other.responses.delete(stored.id),
        () => other.responses.inputItems.list(stored.id),
        () => other.responses.create({ model: "gpt", previous_response_id: stored.id, input: "Hi" }),
        () =>
          other.responses.create({ model: "gpt", input: [{ type: "item_reference", id: stored.output[0]?.id ?? "" }] })
      ]) {
        assert.strictEqual((yield* failure(call)).status, 404)
      }
      const unstored = yield* ask(() => client.responses.create({ model: "gpt", input: "Hi", store: false }))
      assert.strictEqual((yield* failure(() => client.responses.retrieve(unstored.id))).status, 404)
      // After a day nothing refers to it any more.
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          UPDATE gateway_responses SET created_at = created_at - interval '25 hours'
          WHERE id = ${stored.id.slice("resp_".length)}::uuid`
      )
      for (const call of [
        () => client.responses.retrieve(stored.id),
        () => client.responses.create({ model: "gpt", previous_response_id: stored.id, input: "Hi" })
      ]) {
        assert.strictEqual((yield* failure(call)).status, 404)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("refuses what it cannot do by the name of the member, and holds nothing", () =>
    Effect.gen(function* () {
      const { client, service, tenantId } = yield* setUp
      const cases: ReadonlyArray<readonly [body: object, named: string]> = [
        [{ background: true }, "background"],
        [{ conversation: "conv_1" }, "conversation"],
        [{ prompt: { id: "pmpt_1" } }, "prompt"],
        [{ input: [] }, "input"],
        [{ input: [{ type: "computer_call_output" }] }, "input"],
        [{ input: [{ type: "reasoning", id: "rs_1", summary: [] }] }, "input"],
        [{ input: [{ role: "user", content: [null] }] }, "input.0.content.0"],
        [{ input: [{ type: "function_call_output", call_id: "c", output: [null] }] }, "input.0.output.0"],
        [{ tools: [{ type: "a\nb" }] }, "tools.0.type"],
        [{ model: "any/\ud800" }, "model"],
        [{ model: "any/\0" }, "model"],
        [
          { input: [{ role: "user", content: [{ type: "input_image", file_id: "f" }] }] },
          "input.0.content.0.image_url"
        ],
        [{ max_output_tokens: 0 }, "max_output_tokens"],
        [{ previous_response_id: "resp_nope" }, "previous_response_id"]
      ]
      for (const [body, named] of cases) {
        const error = yield* failure(() =>
          client.responses.create({ model: "gpt", input: "Hi", ...body } as OpenAI.Responses.ResponseCreateParams)
        )
        assert.include([400, 404], error.status)
        assert.strictEqual(error.param, named)
      }
      assert.isEmpty(yield* charges(service, tenantId))
    }).pipe(Effect.scoped)
  )

  it.effect("shows an agent its own responses alone, and lists items by pages", () =>
    Effect.gen(function* () {
      const { client, service, tenantId } = yield* setUp
      const stored = yield* ask(() => client.responses.create({ model: "gpt", input: "Hi" }))
      const made = yield* make(service, "/api/agents", registration({ tenantId, scopeCeiling: ["llm:*"] }))
      const { accessToken: token } = (yield* service.call("POST", `/api/agents/${made.id}/credentials`, { body: {} }))
        .body
      const agent = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: token, maxRetries: 0 })
      assert.strictEqual((yield* failure(() => agent.responses.retrieve(stored.id))).status, 404)
      const own = yield* ask(() => agent.responses.stream({ model: "gpt", input: "Hi" }).finalResponse())
      const items = ["One", "Two", "Three"].map((content) => ({ role: "user" as const, content }))
      const next = yield* ask(() =>
        agent.responses.create({ model: "gpt", previous_response_id: own.id, input: items })
      )
      const page = yield* ask(() => agent.responses.inputItems.list(next.id, { limit: 2, order: "asc" }))
      assert.lengthOf(page.data, 2)
      const rest = yield* ask(() => page.getNextPage())
      assert.deepInclude(rest.data[0] as object, { content: "Three" })
    }).pipe(Effect.scoped)
  )

  it.effect("ends a stream that its provider breaks off with response.failed", () =>
    Effect.gen(function* () {
      const { client, openai } = yield* setUp
      openai.answer = (_, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "One" } }] })}\n\n`)
        response.end()
      }
      const types = yield* ask(async () => {
        const seen: Array<string> = []
        const stream = await client.responses.create({ model: "gpt", input: "Hi", stream: true })
        for await (const event of stream) seen.push(event.type)
        return seen
      })
      assert.strictEqual(types.at(-1), "response.failed")
    }).pipe(Effect.scoped)
  )
})

layer(serviceLayer({ Llm__Gateway__StoreResponses: "false" }), { excludeTestServices: true, timeout: "60 seconds" })(
  "the Responses API where nothing is stored",
  (it) => {
    it.effect("answers, and says what to send in the place of a reference", () =>
      Effect.gen(function* () {
        const { client, service } = yield* setUp
        const response = yield* ask(() => client.responses.create({ model: "gpt", input: "Hi" }))
        const error = yield* failure(() =>
          client.responses.create({ model: "gpt", previous_response_id: response.id, input: "Hi" })
        )
        assert.strictEqual(error.status, 400)
        assert.include(error.message, "store: false")
        const rows = yield* asSuperuser(service.database, (sql) => sql`SELECT 1 FROM gateway_responses`)
        assert.isEmpty(rows)
      }).pipe(Effect.scoped)
    )
  }
)

const openAiUsage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
