/** The switch between light, dark and the system's theme. */
import { useObservable } from "../model/observable.js";
import type { Theme } from "../model/theme.js";
import { Icon } from "./icon.js";

const LABELS = { system: "as the system", light: "light", dark: "dark" } as const;

/** The switch. */
export function ThemeSwitch({ theme }: { theme: Theme }) {
  useObservable(theme);
  const label = `Colours: ${LABELS[theme.choice]}. Change`;
  return (
    <button
      type="button"
      class="round"
      aria-label={label}
      title={label}
      onClick={() => theme.next()}
    >
      <Icon name={theme.choice} />
    </button>
  );
}
