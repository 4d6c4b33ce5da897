import { useMutation } from "@tanstack/react-query"
import { useState } from "react"
import { call } from "../../api/client.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { Act, type Of } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { count } from "../../kit/format.tsx"
import { AskDialog } from "../../kit/forms/ask.tsx"
import { SelectField, textOf, TextField } from "../../kit/forms/form.tsx"
import { Fault, Soft, Tag } from "../../kit/parts.tsx"
import { Loading } from "../../kit/states.tsx"
import { newestConfiguration, saveConfiguration, undoSave, useConfiguration } from "./configuration.ts"
import {
  type Document,
  freeId,
  isOffered,
  type Offered,
  type Provider,
  withoutProvider,
  withProvider
} from "./document.ts"
import { inputPrice, outputPrice } from "./prices.ts"
import {
  addressOf,
  type Authorization,
  authorizationOf,
  authorizationsOf,
  choiceOf,
  choices,
  credentialIn,
  type Dialect,
  dialectOf,
  inWords,
  membersOf,
  placesOf,
  presetOf,
  type Vendor
} from "./provider-vendors.ts"

type Listed = Row<"llm.listModels">

export const TestResult = ({ result }: { readonly result: Answer<"llm.testProvider"> }) => (
  <div role="status" className="note">
    <Tag tone={result.ok ? "ok" : "bad"}>{result.ok ? "It answers" : "It fails"}</Tag>
    <span>
      {result.detail} {count(result.latencyMs)} ms{result.status === null ? "" : `, status ${result.status}`}.
    </span>
  </div>
)

/** What is tested: the address and the key of the form, how a cloud serves it, and what the provider is to be called. */
const targetOf = (data: FormData, dialect: Dialect, { apiVersion, platform }: Partial<Provider>) => {
  const apiKey = textOf(data, "apiKey")
  const id = textOf(data, "id")
  return {
    dialect,
    baseUrl: textOf(data, "baseUrl") ?? "",
    ...(platform === undefined ? {} : { platform }),
    ...(apiVersion === undefined ? {} : { apiVersion }),
    ...(id === undefined ? {} : { id }),
    ...(apiKey === undefined ? {} : { apiKey })
  }
}

/** What of a model's name says what it does, where the catalogue does not know it. */
const kindsByName: ReadonlyArray<readonly [RegExp, Offered["kind"]]> = [
  [/rerank/i, "rerank"],
  [/embed/i, "embedding"],
  [/\btts\b/i, "speech"],
  [/\brealtime\b/i, "realtime"]
]
const kindOf = ({ id, kind }: Listed): Offered["kind"] =>
  kind ?? kindsByName.find(([name]) => name.test(id))?.[1] ?? "chat"

/** What each kind of model is called in the list. */
const kindNames: Readonly<Record<Offered["kind"], string>> = {
  chat: "chat",
  embedding: "embedding",
  moderation: "moderation",
  rerank: "reranking",
  speech: "speech",
  image: "images",
  transcription: "transcription",
  realtime: "realtime"
}

/** The time of a GPU that a model of the configuration is charged by. */
type GpuHour = NonNullable<NonNullable<Offered["prices"]>["gpuHour"]>

/** What a model costs that the catalogue does not price: its tokens, or the time of a GPU. */
const OwnPrice = ({ gpuHour, model }: { readonly gpuHour: GpuHour | undefined; readonly model: Listed }) => {
  const [isByTime, setByTime] = useState(gpuHour !== undefined)
  const { id } = model
  return (
    <span className="inline">
      <select name={`kind:${id}`} aria-label={`What ${id} does`} defaultValue={kindOf(model)}>
        {Object.entries(kindNames).map(([kind, name]) => (
          <option key={kind} value={kind}>
            {name}
          </option>
        ))}
      </select>
      <select
        name={`by:${id}`}
        aria-label={`What calls of ${id} are charged by`}
        value={isByTime ? "time" : "tokens"}
        onChange={(event) => setByTime(event.target.value === "time")}
      >
        <option value="tokens">by tokens</option>
        <option value="time">by GPU time</option>
      </select>
      {isByTime ? (
        <>
          <input
            key="hour"
            name={`hour:${id}`}
            type="number"
            min={0}
            step="any"
            required
            placeholder="$ an hour"
            aria-label={`Dollars for an hour of the GPU that runs ${id}`}
            defaultValue={gpuHour?.usd}
          />
          <input
            key="slots"
            name={`slots:${id}`}
            type="number"
            min={1}
            max={100_000}
            step={1}
            required
            placeholder="calls"
            aria-label={`Calls of ${id} that a GPU runs at once`}
            defaultValue={gpuHour?.slots}
          />
        </>
      ) : (
        <>
          <input
            key="input"
            name={`input:${id}`}
            type="number"
            min={0}
            step="any"
            placeholder="$ in"
            aria-label={`Dollars for a million tokens that ${id} reads`}
          />
          <input
            key="output"
            name={`output:${id}`}
            type="number"
            min={0}
            step="any"
            placeholder="$ out"
            aria-label={`Dollars for a million tokens that ${id} writes`}
          />
        </>
      )}
    </span>
  )
}

interface Choosing {
  readonly chosen: ReadonlySet<string>
  /** The time of GPUs that models are charged by, by their names. */
  readonly gpuHours: ReadonlyMap<string, GpuHour>
  /** Whether the models that the catalogue prices are served all. */
  readonly isOpen: boolean
  readonly listed: ReadonlyArray<Listed>
  readonly onChoose: (ids: ReadonlyArray<string>, isOn: boolean) => void
  readonly onOpen: (isOpen: boolean) => void
}

/** Chooses models of those that a provider lists, with what they cost. */
const Models = ({ chosen, gpuHours, isOpen, listed, onChoose, onOpen }: Choosing) => {
  const [filter, setFilter] = useState("")
  const priced = listed.filter(({ prices }) => prices !== null)
  const shown = listed.filter(({ id }) => id.toLowerCase().includes(filter.trim().toLowerCase()))
  const free = shown.filter(({ prices }) => !isOpen || prices === null)
  return (
    <fieldset className="models">
      <legend className="label">Models that callers can request</legend>
      {priced.length === 0 ? (
        <p className="soft">The catalogue knows none of these models. Choose some, and say what their tokens cost.</p>
      ) : (
        <>
          {(
            [
              [true, `All ${count(priced.length)} that the catalogue prices, and those that it learns later`],
              [false, "Only the models selected here"]
            ] as const
          ).map(([open, label]) => (
            <div key={label} className="check">
              <input
                id={`open-${open}`}
                type="radio"
                name="open"
                checked={isOpen === open}
                onChange={() => onOpen(open)}
              />
              <label htmlFor={`open-${open}`}>{label}</label>
            </div>
          ))}
        </>
      )}
      <div className="inline">
        <input
          type="search"
          aria-label="Filter models"
          placeholder="Filter by name"
          value={filter}
          onChange={(event) => setFilter(event.target.value)}
        />
        <Act
          onClick={() =>
            onChoose(
              free.map(({ id }) => id),
              !free.every(({ id }) => chosen.has(id))
            )
          }
          unless={free.length === 0 ? "All of these are served" : undefined}
        >
          {free.length > 0 && free.every(({ id }) => chosen.has(id)) ? "Select none" : "Select all"}
        </Act>
      </div>
      <div className="choices">
        {shown.map((model) => {
          const { id, prices } = model
          const isServed = isOpen && prices !== null
          const isOn = isServed || chosen.has(id)
          return (
            <div key={id}>
              <span className="check">
                <input
                  id={`model-${id}`}
                  type="checkbox"
                  checked={isOn}
                  disabled={isServed}
                  onChange={(event) => onChoose([id], event.target.checked)}
                />
                <label htmlFor={`model-${id}`}>{id}</label>
              </span>
              {prices !== null ? (
                <small>
                  {inputPrice(prices)}
                  {outputPrice(prices) === null ? "" : ` in, ${outputPrice(prices)} out`}
                </small>
              ) : isOn ? (
                <OwnPrice gpuHour={gpuHours.get(id)} model={model} />
              ) : (
                <Soft>price unknown</Soft>
              )}
            </div>
          )
        })}
      </div>
      <small>
        Prices are of a million tokens, in US dollars. A model without a price is refused where a cap in dollars
        applies. By GPU time, tokens cost nothing: a call costs its part of an hour, shared by the calls that a GPU runs
        at once. At 4 dollars and 8 calls, a minute of a call costs 0.83 cents. Until it ends, a call holds the time
        limit of calls.
      </small>
    </fieldset>
  )
}

/** The models that a form says to serve: under their own names, with the prices that were entered. */
const offeredIn = (
  data: FormData,
  listed: ReadonlyArray<Listed>,
  chosen: ReadonlySet<string>,
  isOpen: boolean
): ReadonlyArray<Offered> =>
  listed
    .filter(({ id, prices }) => chosen.has(id) && !(isOpen && prices !== null))
    .map((model) => {
      const { id } = model
      const kind = (textOf(data, `kind:${id}`) as Offered["kind"] | undefined) ?? kindOf(model)
      const [input, hour, slots] = ["input", "hour", "slots"].map((name) => textOf(data, `${name}:${id}`))
      if (hour !== undefined && slots !== undefined) {
        return { id, kind, prices: { gpuHour: { usd: Number(hour), slots: Number(slots) } } }
      }
      const output = textOf(data, `output:${id}`)
      if (input === undefined) return { id, kind }
      const prices = {
        inputUsdPerMTok: Number(input),
        ...(output === undefined ? {} : { outputUsdPerMTok: Number(output) })
      }
      return { id, kind, prices }
    })

/** What of a vendor's provider its form does not ask for. */
const quirksOf = ({ apis, platform, reportsCost }: Partial<Vendor>): Partial<Provider> => ({
  ...(platform === undefined ? {} : { platform }),
  ...(apis === undefined ? {} : { apis }),
  ...(reportsCost === undefined ? {} : { reportsCost })
})

interface Said {
  readonly dialect: Dialect
  readonly preset: Vendor | undefined
  readonly authorization: Authorization
  readonly isOpen: boolean
  readonly of: Provider | undefined
}

/** The provider that a form says; what it does not ask for stays as it is. */
const providerIn = (data: FormData, { authorization, dialect, isOpen, of, preset }: Said): Provider => {
  const typed = authorization === "key" ? textOf(data, "apiKey") : undefined
  const apiKey = typed ?? (authorization === "key" ? of?.apiKey : undefined)
  const keptKey = authorization === "key" && typed === undefined && of?.credential?.type === "key"
  const credential = keptKey ? of.credential : credentialIn(data, authorization)
  const [project, region] = [textOf(data, "project"), textOf(data, "region")]
  const {
    apiKey: _key,
    billing: _billing,
    catalogue: _catalogue,
    credential: _credential,
    ...kept
  }: Partial<Provider> = of ?? quirksOf(preset ?? {})
  const adminKey = textOf(data, "adminKey") ?? of?.billing?.adminKey
  const isVertex = preset?.platform === "vertex"
  return {
    ...kept,
    id: of?.id ?? textOf(data, "id") ?? "",
    dialect,
    baseUrl: textOf(data, "baseUrl") ?? "",
    ...(isVertex && project !== undefined ? { project } : {}),
    ...(isVertex && region !== undefined ? { region } : {}),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(adminKey === undefined ? {} : { billing: { ...of?.billing, adminKey } }),
    ...(credential === undefined ? {} : { credential }),
    ...(isOpen ? {} : { catalogue: false })
  }
}

/** The vendors that report what they billed. */
const reportsBills: ReadonlySet<string> = new Set(["openai", "anthropic"])

interface OfForm {
  readonly document: Document
  readonly of?: Provider | undefined
}

/** Adds a provider, or changes one: where it is, its key, and which of its models callers may ask for. */
const ProviderForm = ({ document, of }: OfForm) => {
  const [choice, setChoice] = useState(of === undefined ? (choices[0]?.[0] ?? "") : choiceOf(of))
  const [isOpen, setOpen] = useState(of?.catalogue !== false)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(
    () =>
      new Set(
        (document.models ?? []).flatMap((model) => (of !== undefined && isOffered(model, of.id) ? [model.id] : []))
      )
  )
  const gpuHours = new Map(
    (document.models ?? []).flatMap(({ id, prices }) => (prices?.gpuHour ? [[id, prices.gpuHour] as const] : []))
  )
  const dialect = dialectOf(choice)
  const preset = presetOf(choice)
  const [places, setPlaces] = useState<Readonly<Record<string, string>>>(() => ({ region: of?.region ?? "" }))
  const [wanted, setWanted] = useState<Authorization | undefined>(of && authorizationOf(of))
  const authorizations = authorizationsOf(preset, of)
  const authorization = authorizations.find(([kind]) => kind === wanted)?.[0] ?? authorizations[0]?.[0] ?? "key"
  const address = addressOf(preset, places)
  const asked = of === undefined ? placesOf(preset) : []
  /** A test sends what is in the form; a credential is the configuration's alone. */
  const canTest = authorization === "key" || authorization === "none"
  const test = useMutation({
    mutationFn: async (data: FormData) => {
      const body = targetOf(data, dialect, of ?? quirksOf(preset ?? {}))
      const tested = await call("llm.testProvider", { body })
      return { tested, listed: tested.ok ? await call("llm.listModels", { body }) : undefined }
    }
  })
  const listed = test.data?.listed
  const place = of === undefined ? (document.providers ?? []).length : (document.providers ?? []).indexOf(of)
  const at = (member: string) => `providers.${Math.max(place, 0)}.${member}`
  const name = of?.id ?? freeId(document, preset?.id ?? "own")
  return (
    <AskDialog
      title={of === undefined ? "Add a provider" : `Change ${of.id}`}
      action={of === undefined ? "Add the provider" : "Save"}
      wide
      done={of === undefined ? "The provider is added, and its models can be called" : `${of.id} is changed`}
      link={() => [`/models?provider=${encodeURIComponent(name)}`, "Its models"]}
      undo={undoSave}
      acts={
        <button
          type="button"
          className="btn"
          disabled={test.isPending || !canTest}
          title={canTest ? undefined : "No test sends another credential than a key"}
          onClick={(event) => {
            const { form } = event.currentTarget
            if (form?.reportValidity() === true) test.mutate(new FormData(form))
          }}
        >
          {test.isPending ? "Testing …" : "Test and list models"}
        </button>
      }
      submit={async (form) => {
        const data = new FormData(form)
        const newest = await newestConfiguration()
        const offered = offeredIn(data, listed ?? [], chosen, isOpen)
        const choices = new Set((listed ?? []).map(({ id }) => id))
        return saveConfiguration(
          withProvider(
            newest.document,
            providerIn(data, { authorization, dialect, isOpen, of, preset }),
            offered,
            choices
          ),
          newest
        )
      }}
    >
      <div className="row2">
        <SelectField
          label="Vendor"
          value={choice}
          disabled={of !== undefined}
          options={choices}
          onChange={(event) => {
            setChoice(event.target.value)
            setWanted(undefined)
            test.reset()
          }}
        />
        {authorizations.length > 1 && (
          <SelectField
            label="Requests are authorized by"
            value={authorization}
            options={authorizations}
            onChange={(event) => {
              setWanted(event.target.value as Authorization)
              test.reset()
            }}
          />
        )}
        {authorization === "key" && (
          <TextField
            label={of === undefined ? "API key" : "Another API key"}
            name="apiKey"
            type="password"
            autoComplete="off"
            member={at("apiKey")}
            hint={
              of?.apiKey === undefined
                ? "Encrypted when it is saved, and never shown again"
                : "Empty: the stored key stays. A test needs a key, since the stored one is not read for it"
            }
          />
        )}
        {asked.map((name) => (
          <TextField
            key={`${name} ${choice}`}
            label={inWords(name)}
            name={name}
            required
            value={places[name] ?? ""}
            onChange={(event) => setPlaces((before) => ({ ...before, [name]: event.target.value.trim() }))}
            member={at(name)}
            pattern="[A-Za-z0-9\-]+"
            title="Letters, digits and dashes"
            hint={preset?.regions === undefined ? undefined : `Or ${Object.keys(preset.regions).join(", ")}`}
          />
        ))}
        {preset?.platform === "vertex" && (
          <TextField
            label="Project"
            name="project"
            required
            member={at("project")}
            defaultValue={of?.project ?? ""}
            hint="The id of the project of Google Cloud"
          />
        )}
        {membersOf(authorization).map(({ description, isRequired, name }) => (
          <TextField
            key={`${authorization} ${name}`}
            label={inWords(name)}
            name={`credential.${name}`}
            required={isRequired}
            autoComplete="off"
            type={name === "secret" ? "password" : "text"}
            member={at(`credential.${name}`)}
            defaultValue={`${(of?.credential as Readonly<Record<string, unknown>> | undefined)?.[name] ?? ""}`}
            hint={description.replaceAll("`", "")}
          />
        ))}
        <TextField
          key={`url ${choice} ${address}`}
          label="Base URL"
          name="baseUrl"
          type="url"
          required
          member={at("baseUrl")}
          defaultValue={of?.baseUrl ?? address}
          placeholder="https://models.example.com/v1"
          hint={
            dialect === "openai"
              ? "With /v1, as OpenAI's SDK takes it"
              : dialect === "gemini"
                ? "With /v1beta"
                : "Without /v1"
          }
        />
        <TextField
          key={`id ${choice}`}
          label="Name"
          name="id"
          required
          readOnly={of !== undefined}
          member={at("id")}
          defaultValue={name}
          pattern="[a-z0-9][a-z0-9._\-]{0,62}"
          title="Small letters, digits, dots and dashes"
          hint={of === undefined ? "The name in reports, caps and routes" : "The name in reports, caps and routes"}
        />
        {reportsBills.has(preset?.id ?? "") || of?.billing !== undefined ? (
          <TextField
            label={of?.billing === undefined ? "Admin key, to compare its bills" : "Another admin key"}
            name="adminKey"
            type="password"
            autoComplete="off"
            member={at("billing.adminKey")}
            hint={
              of?.billing === undefined
                ? "Optional: reads usage and costs of the account. Encrypted when it is saved"
                : "Empty: the stored key stays"
            }
          />
        ) : null}
      </div>
      <Fault cause={test.error} />
      {test.data && <TestResult result={test.data.tested} />}
      {listed && (
        <Models
          chosen={chosen}
          gpuHours={gpuHours}
          isOpen={isOpen && listed.some(({ prices }) => prices !== null)}
          listed={listed}
          onOpen={setOpen}
          onChoose={(ids, isOn) =>
            setChosen((before) => new Set(isOn ? [...before, ...ids] : [...before].filter((id) => !ids.includes(id))))
          }
        />
      )}
    </AskDialog>
  )
}

/** The dialog of a provider, once the configuration that it is added to has come. */
export const ProviderDialog = ({ of }: Partial<Of<string>>) => {
  const configuration = useConfiguration()
  if (configuration === undefined)
    return (
      <Dialog title={of === undefined ? "Add a provider" : `Change ${of}`} wide>
        <Loading />
      </Dialog>
    )
  const { document } = configuration
  return <ProviderForm document={document} of={document.providers?.find(({ id }) => id === of)} />
}

/** Takes a provider out of the configuration. */
export const RemoveDialog = ({ of: id }: Of<string>) => (
  <AskDialog
    kind="bad"
    title={`Remove ${id}`}
    action="Remove the provider"
    done={`${id} is removed`}
    undo={undoSave}
    submit={async () => {
      const newest = await newestConfiguration()
      return saveConfiguration(withoutProvider(newest.document, id), newest)
    }}
  >
    <p>
      Calls go to <code>{id}</code> no more. Models that lead to it alone cannot be called, and other models lose it as
      a target. Its stored key stays with the versions of the configuration that name it.
    </p>
  </AskDialog>
)
