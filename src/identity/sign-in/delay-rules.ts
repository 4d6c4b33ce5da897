/** Failures that cost nothing, since people mistype. */
const free = 5
/** The longest wait of an address, alone or with an account. */
export const maxSeconds = 900
/** The longest wait per account alone, so that a stranger cannot lock an account out. */
export const maxSecondsOfAccount = 5
/** What has been quiet for so long is forgotten. */
export const forgottenAfterSeconds = 900

/** Seconds to wait after so many failures: nothing before the fifth, then 1, doubling up to `most`. */
export const delaySeconds = (failures: number, most: number): number =>
  failures < free ? 0 : Math.min(most, 2 ** Math.min(failures - free, 30))
