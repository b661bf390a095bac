/** The colour theme: the system's, or the one chosen here. */
import { Observable } from "./observable.js";

/** The choices. */
export const THEMES = ["system", "light", "dark"] as const;
export type ThemeChoice = (typeof THEMES)[number];

const KEY = "heartline.theme";

/** The choice, stored in this browser. */
export class Theme extends Observable {
  #choice: ThemeChoice;

  constructor() {
    super();
    const kept = localStorage.getItem(KEY);
    this.#choice = THEMES.find((known) => known === kept) ?? "system";
    this.#apply();
  }

  get choice(): ThemeChoice {
    return this.#choice;
  }

  /** Selects the next choice. */
  next(): void {
    this.#choice = THEMES[(THEMES.indexOf(this.#choice) + 1) % THEMES.length] ?? "system";
    localStorage.setItem(KEY, this.#choice);
    this.#apply();
    this.changed();
  }

  #apply(): void {
    document.documentElement.dataset["theme"] = this.#choice;
  }
}
