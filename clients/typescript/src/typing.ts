/** Typing indicators, sent and received. */
import type { FrameSource } from "./frame_source.js";
import { Listeners } from "./listeners.js";
import type { ChatId, ClientFrame, UserId } from "./protocol.gen.js";

/** How long a user counts as typing. */
const INDICATOR_MS = 10_000;
/** The interval at which a continued indicator is sent again, well before it would end. */
const REPEAT_MS = 4000;
/** The server passes on one frame per chat and second. */
const INTERVAL_MS = 1000;
/** The number of chats, or typing users, that are kept; further ones are ignored. */
const KEPT_MAX = 256;

/** The time until which a user counts as typing. */
interface Indicator {
  end: () => void;
  timer: ReturnType<typeof setTimeout>;
}

interface Said {
  is_typing: boolean;
  at: number;
}

/** Typing in both directions. */
export class Typing implements FrameSource {
  readonly onTyping = new Listeners<[ChatId, UserId, boolean]>();
  /** The last indicator that was sent, and when. */
  readonly #said = new Map<ChatId, Said>();
  /** The indicators still to be sent. */
  readonly #unsaid = new Map<ChatId, boolean>();
  readonly #indicators = new Map<string, Indicator>();

  /**
   * Reports that the user is typing, or has stopped. Call it on every keystroke: most calls send
   * nothing.
   */
  say(chat_id: ChatId, is_typing: boolean, now: number): void {
    const said = this.#said.get(chat_id);
    const isSame = (said?.is_typing ?? false) === is_typing;
    const isFresh = said !== undefined && now - said.at < REPEAT_MS;
    if (isSame && (!is_typing || isFresh)) this.#unsaid.delete(chat_id);
    else if (this.#unsaid.size < KEPT_MAX) this.#unsaid.set(chat_id, is_typing);
  }

  dueAt(): number {
    return Math.min(...[...this.#unsaid.keys()].map((chat_id) => this.#readyAt(chat_id)));
  }

  next(now: number): ClientFrame | undefined {
    for (const [chat_id, is_typing] of this.#unsaid) {
      if (this.#readyAt(chat_id) > now) continue;
      this.#unsaid.delete(chat_id);
      this.#said.delete(chat_id);
      this.#said.set(chat_id, { is_typing, at: now });
      const [oldest] = this.#said.keys();
      if (this.#said.size > KEPT_MAX && oldest !== undefined) this.#said.delete(oldest);
      return { type: "typing", chat_id, is_typing };
    }
    return undefined;
  }

  /** The user sends a message, which ends the indicator for others. */
  sent(chat_id: ChatId): void {
    this.#unsaid.delete(chat_id);
    const said = this.#said.get(chat_id);
    if (said !== undefined) said.is_typing = false;
  }

  /**
   * Handles an indicator, or a message, of another user. An indicator ends after a while by itself.
   */
  heard(chat_id: ChatId, user_id: UserId, is_typing: boolean): void {
    const key = `${chat_id}/${user_id}`;
    const known = this.#indicators.get(key);
    clearTimeout(known?.timer);
    this.#indicators.delete(key);
    const isKept = is_typing && this.#indicators.size < KEPT_MAX;
    if (isKept) {
      const end = () => {
        this.#indicators.delete(key);
        this.onTyping.tell(chat_id, user_id, false);
      };
      this.#indicators.set(key, { end, timer: setTimeout(end, INDICATOR_MS) });
    }
    if (isKept !== (known !== undefined)) this.onTyping.tell(chat_id, user_id, isKept);
  }

  /** The connection has ended: clears all indicators, received and outstanding. */
  ended(): void {
    this.#said.clear();
    this.#unsaid.clear();
    for (const { end, timer } of [...this.#indicators.values()]) {
      clearTimeout(timer);
      end();
    }
  }

  #readyAt(chat_id: ChatId): number {
    const said = this.#said.get(chat_id);
    return said === undefined ? 0 : said.at + INTERVAL_MS;
  }
}
