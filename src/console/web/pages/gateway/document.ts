import { type Payload } from "../../api/operations.ts"

/** The gateway's configuration as the API takes it. */
export type Document = Payload<"llmAdmin.putConfiguration">
export type Provider = NonNullable<Document["providers"]>[number]
type Model = NonNullable<Document["models"]>[number]

/** A model of a provider that callers may ask for under its own name; without prices where the catalogue knows them. */
export type Offered = Pick<Model, "id" | "kind" | "prices">

/** A model of the document without the targets that are not wanted; nothing where no target is left. */
const withTargets = (model: Model, isKept: (target: Model["targets"][number]) => boolean): ReadonlyArray<Model> => {
  const targets = model.targets.filter(isKept)
  return targets.length === model.targets.length ? [model] : targets.length === 0 ? [] : [{ ...model, targets }]
}

/** Whether a model of the document is one of a provider under the name that the provider gives it. */
export const isOffered = ({ id, targets }: Model, provider: string): boolean =>
  targets.some((target) => target.provider === provider && target.model === id)

/**
 * The document with a provider, in the place of the one that has its id, and with the models of it that callers may ask for. Of those
 * that were to choose from, the others are taken away; what leads to the provider under other names stays.
 */
export const withProvider = (
  document: Document,
  provider: Provider,
  offered: ReadonlyArray<Offered>,
  choices: ReadonlySet<string>
): Document => {
  const { models = [], providers = [] } = document
  const wanted = new Map(offered.map((model) => [model.id, model]))
  const kept = models.flatMap((model) => {
    const given = wanted.get(model.id)
    if (given === undefined) {
      return !choices.has(model.id)
        ? [model]
        : withTargets(model, (target) => target.provider !== provider.id || target.model !== model.id)
    }
    wanted.delete(model.id)
    const targets = isOffered(model, provider.id)
      ? model.targets
      : [...model.targets, { provider: provider.id, model: model.id }]
    return [{ ...model, ...(given.prices === undefined ? {} : { prices: given.prices }), targets }]
  })
  const added = Array.from(wanted.values(), (model) => ({
    ...model,
    targets: [{ provider: provider.id, model: model.id }]
  }))
  const isNew = providers.every(({ id }) => id !== provider.id)
  const next = kept.concat(added)
  return {
    ...document,
    providers: isNew ? [...providers, provider] : providers.map((one) => (one.id === provider.id ? provider : one)),
    ...(next.length === 0 && document.models === undefined ? {} : { models: next })
  }
}

/** The document without a provider, and without what leads to it alone. */
export const withoutProvider = (document: Document, id: string): Document => ({
  ...document,
  providers: (document.providers ?? []).filter((provider) => provider.id !== id),
  ...(document.models === undefined
    ? {}
    : { models: document.models.flatMap((model) => withTargets(model, ({ provider }) => provider !== id)) })
})

/** An id that no provider has yet: the wanted one, or it with a number. */
export const freeId = (document: Document, wanted: string): string => {
  const taken = new Set((document.providers ?? []).map(({ id }) => id))
  let id = wanted
  for (let number = 2; taken.has(id); number += 1) id = `${wanted}-${number}`
  return id
}
