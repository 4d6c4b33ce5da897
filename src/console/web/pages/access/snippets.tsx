import { useCall } from "../../api/hooks.ts"
import { Copy, Tabs } from "../../kit/actions.tsx"

interface Made {
  readonly base: string
  readonly key: string
  readonly model: string
}

/** How people and programs call a model with a key, by what they call with. */
const snippetsOf = ({ base, key, model }: Made): ReadonlyArray<readonly [title: string, code: string]> => [
  [
    "curl",
    `curl ${base}/v1/chat/completions \\
  -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" \\
  -d '{"model":"${model}","messages":[{"role":"user","content":"Hello"}]}'

# The same as a stream of events
curl -N ${base}/v1/chat/completions \\
  -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" \\
  -d '{"model":"${model}","stream":true,"messages":[{"role":"user","content":"Hello"}]}'`
  ],
  [
    "OpenAI Python",
    `# pip install openai
from openai import OpenAI

client = OpenAI(base_url="${base}/v1", api_key="${key}")
answer = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.choices[0].message.content)`
  ],
  [
    "OpenAI JavaScript",
    `// npm install openai
import OpenAI from "openai"

const client = new OpenAI({ baseURL: "${base}/v1", apiKey: "${key}" })
const answer = await client.chat.completions.create({
  model: "${model}",
  messages: [{ role: "user", content: "Hello" }]
})
console.log(answer.choices[0].message.content)`
  ],
  [
    "Anthropic Python",
    `# pip install anthropic
from anthropic import Anthropic

client = Anthropic(base_url="${base}", api_key="${key}")
answer = client.messages.create(
    model="${model}",
    max_tokens=256,
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.content[0].text)`
  ],
  [
    "Anthropic JavaScript",
    `// npm install @anthropic-ai/sdk
import Anthropic from "@anthropic-ai/sdk"

const client = new Anthropic({ baseURL: "${base}", apiKey: "${key}" })
const answer = await client.messages.create({
  model: "${model}",
  max_tokens: 256,
  messages: [{ role: "user", content: "Hello" }]
})
console.log(answer.content[0].text)`
  ],
  [
    "Environment",
    `# The SDKs and most programs read these
export OPENAI_BASE_URL=${base}/v1
export OPENAI_API_KEY=${key}
export ANTHROPIC_BASE_URL=${base}
export ANTHROPIC_API_KEY=${key}`
  ],
  [
    "Claude Code",
    `export ANTHROPIC_BASE_URL=${base}
export ANTHROPIC_AUTH_TOKEN=${key}
export ANTHROPIC_MODEL=${model}
claude`
  ],
  [
    "Codex",
    `# ~/.codex/config.toml
model = "${model}"
model_provider = "application-manager"

[model_providers.application-manager]
name = "Application Manager"
base_url = "${base}/v1"
env_key = "APPLICATION_MANAGER_KEY"
wire_api = "responses"

# Then, in a shell
export APPLICATION_MANAGER_KEY=${key}
codex`
  ]
]

/** Ready-made calls with this service's address: with the key itself while it is shown, else with what stands for it. */
export const Snippets = ({ secret = "YOUR_KEY" }: { readonly secret?: string }) => {
  const { data: models } = useCall("llm.models", {})
  // A fresh installation has a model that echoes, and needs no account with a provider.
  const model = models?.find(({ kind }) => kind === "chat")?.id ?? "loopback-1"
  return (
    <Tabs
      label="Ready-made calls"
      tabs={snippetsOf({ base: location.origin, key: secret, model }).map(([title, code]) => [
        title,
        <div key={title} className="stack">
          <pre tabIndex={0}>{code}</pre>
          <div>
            <Copy text={code} what={title} />
          </div>
        </div>
      ])}
    />
  )
}
