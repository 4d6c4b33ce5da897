const paths = {
  home: "M3 9.5 10 4l7 5.500V16a1 1 0 0 1-1 1h-3.500v-4.500h-5V17H4a1 1 0 0 1-1-1z",
  chart: "M3.500 16.500h13M5 13l3.500-4 3 2.500L16 5.500",
  bars: "M4 16.500V9M10 16.500V4M16 16.500V12",
  check: "M4 10.500 8 14.500 16 6",
  plan: "M4 5h5v4H4zM11 11h5v4h-5zM9 7h3.500v4",
  pulse: "M3 10h4l2-5 2.500 10 2-5H17",
  list: "M4 5h12M4 10h12M4 15h7",
  key: "M12.500 10a4 4 0 1 0-3.600-2.300L3.500 13v3.500H7V15h1.500v-1.500H10l1.200-1.200c.4.100.8.200 1.300.200M13 7h.01",
  agent: "M5 8h10v7.500H5zM10 8V4.500M7.800 11v1.500M12.200 11v1.500M3 11v2M17 11v2",
  people:
    "M7.5 9.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 16.5c0-3 2.5-5 5.5-5s5.500 2 5.500 5M13 4a2.700 2.700 0 0 1 0 5.300M14.500 11.700c2 .5 3.500 2.300 3.500 4.800",
  shield: "M10 2.500 16 5v5c0 4-2.700 6.300-6 7.500C6.700 16.300 4 14 4 10V5z",
  grid: "M3.500 3.500h5v5h-5zM11.500 3.500h5v5h-5zM3.500 11.500h5v5h-5zM11.500 11.500h5v5h-5z",
  file: "M5 2.500h6.500L15.500 6.500V17.500H5zM11.500 2.500V6.500H15.500",
  plug: "M7 3v4M13 3v4M5 7h10v2.500a5 5 0 0 1-10 0zM10 14.500V17.500",
  gear: "M10 12.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM10 2.500v2M10 15.500v2M2.500 10h2M15.500 10h2M4.700 4.700l1.400 1.400M13.900 13.900l1.400 1.400M15.300 4.700l-1.400 1.400M6.100 13.900l-1.400 1.400",
  search: "M9 14.500a5.500 5.500 0 1 0 0-11 5.500 5.500 0 0 0 0 11zM13 13l4 4",
  copy: "M7 7V4h9v9h-3M4 7h9v9H4z",
  close: "M5 5l10 10M15 5L5 15",
  menu: "M3 6h14M3 10h14M3 14h14",
  next: "M8 5l5 5-5 5",
  previous: "M12 5l-5 5 5 5",
  up: "M5 12l5-5 5 5",
  down: "M5 8l5 5 5-5",
  sort: "M6.500 8 10 4.500 13.500 8M6.500 12l3.500 3.500 3.500-3.500",
  more: "M5 10h.01M10 10h.01M15 10h.01",
  plus: "M10 4v12M4 10h12",
  person:
    "M10 10a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM3.500 17c0-3.300 2.900-5.500 6.500-5.500s6.500 2.200 6.500 5.500",
  building: "M4 17V4h8v13M12 8h4v9M7 7h2M7 10h2M7 13h2",
  warning: "M10 3.500 17.500 16.500h-15zM10 8v4M10 14.300h.01",
  card: "M3 5.500h14v9H3zM3 8.500h14M6 12h3",
  seal: "M10 3a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM7.500 12.500 6.500 17l3.500-1.500 3.500 1.500-1-4.500",
  play: "M6 4l10 6-10 6z",
  bell: "M5 13.500V9a5 5 0 0 1 10 0v4.500l1.500 1.500h-13zM8.500 17h3",
  book: "M5 3.500h10.500v13h-9A1.500 1.500 0 0 1 5 15zM5 15a1.500 1.500 0 0 1 1.500-1.500h9M8 7h4.500",
  clock: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM10 6.500V10l2.500 2",
  cube: "M10 2.500 16.500 6v8L10 17.500 3.500 14V6zM3.500 6 10 9.500 16.500 6M10 9.500v8",
  exit: "M8 3.500H4v13h4M12 6.500 15.500 10 12 13.500M15.500 10H8",
  folder: "M3 5.500h5l1.500 2H17V16H3z",
  help: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM8 8a2 2 0 1 1 2.500 2c-.4.200-.5.500-.5 1.200M10 13.500h.01",
  hourglass: "M6 3h8M6 17h8M6.500 3v3.500L10 10l3.500-3.500V3M6.500 17v-3.500L10 10l3.500 3.500V17",
  identity:
    "M3 5h14v10H3zM7.500 9.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM5.500 12.500a2 2 0 0 1 4 0M12 8h3M12 11h3",
  lock: "M5 9h10v8H5zM7 9V6.500a3 3 0 0 1 6 0V9M10 12v2",
  receipt: "M5 2.500h10v15L12.500 16 10 17.500 7.500 16 5 17.500zM7.500 6.500h5M7.500 9.500h5",
  scales: "M10 3v14M6 17h8M4 6h12M4 6l-2 5.500h4zM16 6l-2 5.500h4z",
  server: "M3.500 4h13v5h-13zM3.500 11h13v5h-13zM6 6.500h.01M6 13.500h.01",
  theme: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM10 3v14M12.500 4v12M15 6v8"
} as const

export type IconName = keyof typeof paths

/** One of the set of icons, with strokes of 1.5 px; beside a text it says nothing to a screen reader. */
export const Icon = ({ name, size = 18 }: { readonly name: IconName; readonly size?: number }) => (
  <svg
    width={size}
    height={size}
    viewBox="0 0 20 20"
    fill="none"
    stroke="currentColor"
    strokeWidth="1.5"
    strokeLinecap="round"
    strokeLinejoin="round"
    aria-hidden="true"
  >
    <path d={paths[name]} />
  </svg>
)

/** The mark of the product. */
export const Mark = () => (
  <svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true">
    <rect x="1" y="1" width="20" height="20" rx="6" fill="currentColor" />
    <path d="M6 15V9.500M11 15V6M16 15v-3" stroke="var(--accent-ink)" strokeWidth="2.2" strokeLinecap="round" />
  </svg>
)
