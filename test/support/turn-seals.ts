import { sealedPrefix, type TurnSeals } from "../../src/gateway/formats/common-form/turn-state.ts"

/** Seals that can be read, for translations without a service. */
export const readableSeals: TurnSeals = {
  seal: (_, state) => sealedPrefix + JSON.stringify(state),
  open: (_, sealed) => JSON.parse(sealed.slice(sealedPrefix.length))
}

export const readableSeal = (state: ReadonlyArray<unknown>): string => readableSeals.seal("", state)
