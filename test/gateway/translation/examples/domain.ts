/** Examples by what they show, each in some of the dialects, by their names in the directions of `snapshots.test.ts`. */
export type Examples<Given> = Readonly<Record<string, Readonly<Record<string, Given>>>>
