/** Icons, in the colour of the surrounding text. */

/** The paths of each drawing, in a square of 20. */
const PATHS = {
  chats: "M4 4h12a1 1 0 0 1 1 1v8a1 1 0 0 1-1 1H9l-4 3v-3H4a1 1 0 0 1-1-1V5a1 1 0 0 1 1-1z",
  party: "M3 6h9M3 10h9M3 14h5M15 5v8.5M15 5l2.5 1M13.2 15.3a1.8 1.8 0 1 0 1.8-1.8",
  you: "M10 9.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM4 17c.6-3 3-4.7 6-4.7s5.4 1.7 6 4.7",
  console: "M3 16V4M3 16h14M6 12l3-4 3 2 4-5",
  break: "M11 2.5 5 11h4.5L8.5 17.5 15 9h-4.7z",
  back: "M12 4l-6 6 6 6",
  more: "M4 6h12M4 10h12M4 14h12",
  plus: "M10 4v12M4 10h12",
  close: "M5 5l10 10M15 5L5 15",
  up: "M10 16V5M5 9.5l5-5 5 5",
  down: "M10 4v11M5 10.5l5 5 5-5",
  play: "M7 4.5v11l8-5.5z",
  mirror: "M10 3v14M7 6l-4 8h4zM13 6l4 8h-4z",
  link: "M8.5 11.5l3-3M7 9l-2 2a2.8 2.8 0 0 0 4 4l2-2M13 11l2-2a2.8 2.8 0 0 0-4-4L9 7",
  crown: "M3.5 14.5h13l1-8-4 3.2L10 5 6.5 9.7l-4-3.2z",
  people:
    "M7.5 9.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM2.5 16c.4-2.6 2.3-4 5-4s4.6 1.4 5 4" +
    "M13 5a2.2 2.2 0 0 1 0 4.4M14.5 12.3c1.7.5 2.7 1.8 3 3.7",
  grip: "M7.5 5h.01M12.5 5h.01M7.5 10h.01M12.5 10h.01M7.5 15h.01M12.5 15h.01",
  light:
    "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18" +
    "M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1",
  dark: "M16 11.8A6.5 6.5 0 0 1 8.2 4a6.5 6.5 0 1 0 7.8 7.8z",
  system: "M3 4.5h14v9H3zM7.5 17h5M10 13.5V17",
  send: "M3.5 10 17 3.5 12.5 17l-3-5.5zM9.5 11.5 17 3.5",
  leave: "M8 4H4v12h4M9 10h8M14 7l3 3-3 3",
} as const;

export type IconName = keyof typeof PATHS;

/** An icon. Screen readers skip it: label the element around it. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
