import { hash } from "node:crypto"

/** Of a hash; two of 100,000 requests share so many bytes once in three billion batches. */
const hashBytes = 8
const entryBytes = hashBytes + 1

/** The most models of one batch: an entry names one in a byte. */
export const maxModels = 256

const hashOf = (customId: string): Buffer => hash("sha256", customId, "buffer").subarray(0, hashBytes)

/** Which of its models each request of a batch is for, without the ids of the requests, which are the caller's words. */
export class RequestPlaces {
  private readonly entries: Array<Buffer> = []

  add(customId: string, model: number): void {
    this.entries.push(Buffer.concat([hashOf(customId), Buffer.from([model])]))
  }

  /** An entry of nine bytes for each request. */
  get bytes(): Uint8Array {
    return Buffer.concat(this.entries)
  }
}

/** Finds the model of a request by its id; undefined where there is no such request. */
export const placesOf = (bytes: Uint8Array): ((customId: string) => number | undefined) => {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const models = new Map<string, number>()
  for (let at = 0; at + entryBytes <= all.length; at += entryBytes) {
    models.set(all.toString("base64", at, at + hashBytes), all[at + hashBytes] ?? 0)
  }
  return (customId) => models.get(hashOf(customId).toString("base64"))
}
