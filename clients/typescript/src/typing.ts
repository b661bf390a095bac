/** Who is typing, and saying so. */
import type { FrameSource } from "./frame_source.js";
import { Listeners } from "./listeners.js";
import type { ChatId, ClientFrame, UserId } from "./protocol.gen.js";

/** How long somebody counts as typing. */
const INDICATOR_MS = 10_000;
/**
 * How often others are told of one who goes on typing: well before they would think it has ended.
 */
const REPEAT_MS = 4000;
/** One frame a chat and second, as the server passes on. */
const INTERVAL_MS = 1000;
/** Chats, or typing users, that are kept; nobody misses what is more. */
const KEPT_MAX = 256;

/** Somebody counts as typing until then. */
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
  /** What others were last told, and when. */
  readonly #said = new Map<ChatId, Said>();
  /** What they are still to be told. */
  readonly #unsaid = new Map<ChatId, boolean>();
  readonly #indicators = new Map<string, Indicator>();

  /** The user is typing, or no longer. It may be called with every key: most of it is not sent. */
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

  /** The user sends a message, by which others see that the typing has ended. */
  sent(chat_id: ChatId): void {
    this.#unsaid.delete(chat_id);
    const said = this.#said.get(chat_id);
    if (said !== undefined) said.is_typing = false;
  }

  /**
   * Somebody is typing, or no longer: they said so, or have sent their message. Without another
   * word it ends by itself.
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

  /** The connection is over: nobody is known to type, and nobody waits to hear of this user. */
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
