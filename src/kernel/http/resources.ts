import { Context, type Schema, SchemaAST } from "effect"
import { type HttpApiEndpoint, HttpApiSchema } from "effect/http-api"
import { ActsOn, AnswersResource } from "./precondition.ts"

type Endpoint = HttpApiEndpoint.Top

/** A path without the names of its parameters. */
const shapeOf = (path: string): string => path.replace(/:\w+/g, ":").replace(/\/$/, "")

const parentOf = (shape: string): string => shape.slice(0, shape.lastIndexOf("/"))

const isBelowParameter = (shape: string): boolean => parentOf(shape).endsWith("/:")

/** Whether a GET answers one resource, which has an entity tag. */
export const answersResource = ({ annotations, method, path }: Endpoint): boolean =>
  method === "GET" && (shapeOf(path).endsWith("/:") || Context.get(annotations, AnswersResource))

/** Where resources are read: what an endpoint acts on, and which resource its answers show. */
export const makeResources = <A>() => {
  const byShape = new Map<string, { readonly endpoint: Endpoint; readonly value: A }>()

  const resourceAt = (shape: string) => {
    const found = byShape.get(shape)
    return found !== undefined && answersResource(found.endpoint) ? found : undefined
  }

  const actedOn = (endpoint: Endpoint) => {
    const given = Context.get(endpoint.annotations, ActsOn)
    if (given !== undefined) return resourceAt(shapeOf(given))
    const shape = shapeOf(endpoint.path)
    // Where the path itself is read, it is a resource or a collection; else its last segment is an action.
    return resourceAt(byShape.has(shape) ? shape : parentOf(shape))
  }

  return {
    add: (endpoint: Endpoint, value: A): void =>
      void (endpoint.method === "GET" && byShape.set(shapeOf(endpoint.path), { endpoint, value })),
    /** What a write acts on; undefined of one that acts on nothing that is read by its id. */
    actedOn: (endpoint: Endpoint): A | undefined => actedOn(endpoint)?.value,
    /** Whether a write changes something that there is, though it is not read by its id. */
    actsOnUnread: (endpoint: Endpoint): boolean => {
      const shape = shapeOf(endpoint.path)
      return endpoint.method !== "POST" || (isBelowParameter(shape) && !byShape.has(shape))
    },
    /** The resource that the successes of a write show, and whether they show nothing else. */
    shownBy: (endpoint: Endpoint): { readonly value: A; readonly isAlone: boolean } | undefined => {
      const candidates = [actedOn(endpoint), resourceAt(`${shapeOf(endpoint.path)}/:`)]
      const found = candidates.find((one) => one !== undefined && isShownBy(one.endpoint, endpoint))
      return found === undefined ? undefined : { value: found.value, isAlone: isShownAlone(found.endpoint, endpoint) }
    }
  }
}

const bodiesOf = ({ success }: Endpoint): ReadonlyArray<ReadonlyArray<SchemaAST.PropertySignature>> =>
  [...(success as Iterable<Schema.Top>)].map(membersOf)

/** Whether all successes have the members of the resource, whatever else they say once. */
const isShownBy = (read: Endpoint, endpoint: Endpoint): boolean => {
  const [shown = []] = bodiesOf(read)
  const bodies = bodiesOf(endpoint)
  return (
    shown.length > 0 &&
    bodies.length > 0 &&
    bodies.every((body) => shown.every(({ name, type }) => body.some((own) => own.name === name && own.type === type)))
  )
}

const isShownAlone = (read: Endpoint, endpoint: Endpoint): boolean => {
  const [shown = []] = bodiesOf(read)
  return bodiesOf(endpoint).every((body) => body.length === shown.length)
}

/** The members of a body of JSON as they are sent, in their order; none of what is no object. */
export const membersOf = (schema: Schema.Top): ReadonlyArray<SchemaAST.PropertySignature> => {
  const sent = SchemaAST.toEncoded((HttpApiSchema.isWithHeaders(schema) ? schema.schema : schema).ast)
  return SchemaAST.isObjects(sent) ? sent.propertySignatures : []
}
