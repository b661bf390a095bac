/** Turns the frames of chats into messages that the application receives once and in order. */
import { BackOff } from "./back_off.js";
import { CatchUp } from "./catch_up.js";
import { Cursors } from "./cursor.js";
import { Delivery } from "./delivery.js";
import { NEVER } from "./frame_source.js";
import { Listeners } from "./listeners.js";
import { Manifest } from "./manifest.js";
import type {
  ChatId,
  ClientLimits,
  ErrorFrame,
  Message,
  ServerFrame,
  ServerFrameOf,
} from "./protocol.gen.js";
import { Receipts } from "./receipts.js";
import { Sync } from "./sync.js";

/**
 * How long a gap may stay open before the client requests a page: an ack can overtake the pushes
 * before it, and the server itself waits 100 ms for messages out of order.
 */
const GAP_PATIENCE_MS = 250;

/** How much of a chat is delivered that the client does not know yet. */
export type Backlog =
  /** Every message from the first one, for an application that keeps them. */
  | "all"
  /** The messages that the user has acknowledged on no device, at most this many. */
  | { unread_max: number };

/** The callbacks of an inbox. */
export interface InboxSetup {
  backlog: Backlog;
  /**
   * If a message of this chat is being sent on this connection: its sequence will be above this.
   */
  unansweredAbove(chat_id: ChatId): number | undefined;
  /** There may be a frame to send. */
  kick(): void;
  /** The application's position in a chat; undefined when the chat was removed. */
  cursorMoved(chat_id: ChatId, sequence: number | undefined): void;
}

/** The inbox of a client. */
export class Inbox {
  readonly onSynced = new Listeners<[]>();
  readonly onChatChanged = new Listeners<[ServerFrameOf<"chat_changed">]>();
  readonly delivery: Delivery;
  readonly manifest: Manifest;
  readonly sync: Sync;
  readonly receipts = new Receipts();
  readonly #setup: InboxSetup;
  readonly #cursors = new Cursors();
  /**
   * The sequence up to which the application has received each chat, also after the user left it.
   */
  readonly #handed = new Map<ChatId, number>();
  /** Chats with messages that arrived before their start is known. */
  readonly #unmet = new Set<ChatId>();
  #catchUp = new CatchUp();
  #isConnected = false;

  constructor(setup: InboxSetup, random?: () => number) {
    this.#setup = setup;
    this.manifest = new Manifest(new BackOff(random));
    const hasGap = (chat_id: ChatId) => this.#hasGap(chat_id);
    this.sync = new Sync(this.#cursors, hasGap, new BackOff(random));
    this.delivery = new Delivery({
      handedOver: (message) => this.#handedOver(message),
      left: (chat_id, sequence) => this.#cursors.rewind(chat_id, sequence),
      accepts: (chat_id) => this.#reviewAll(chat_id),
    });
  }

  /** Loads the cursors of an earlier page. */
  restore(cursors: Iterable<[ChatId, number]>): void {
    for (const [chat_id, sequence] of cursors) {
      this.#cursors.begin(chat_id, sequence);
      this.#handed.set(chat_id, sequence);
    }
  }

  /** The highest sequence seen in a chat. */
  highestSeen(chat_id: ChatId): number {
    return this.#cursors.highestSeen(chat_id);
  }

  /** A connection was opened. */
  established(user_id: string, limits: ClientLimits, now: number): void {
    this.delivery.user_id = user_id;
    this.#isConnected = true;
    this.#catchUp = new CatchUp();
    this.sync.established(limits);
    this.manifest.established(now);
  }

  /** The connection has ended. */
  ended(): void {
    this.#isConnected = false;
    this.manifest.ended();
    this.sync.ended();
  }

  /** Handles a frame. */
  onFrame(frame: ServerFrame, now: number): void {
    switch (frame.type) {
      case "message":
        this.take(frame, now);
        break;
      case "sync_response":
        this.#onPage(frame, now);
        break;
      case "sync_manifest":
        this.#onManifest(frame, now);
        break;
      case "chat_changed":
        this.#onChatChanged(frame, now);
        break;
      case "resync_required":
        this.manifest.resync(frame.chat_ids, frame.delay_ms, now);
        break;
      case "token_refreshed":
        this.manifest.tokenRefreshed();
        this.sync.tokenRefreshed();
        break;
    }
    this.#follow(now);
  }

  /** Handles an error frame; returns whether it belongs to a request of the inbox. */
  refused(error: ErrorFrame, now: number): boolean {
    const chat_id = this.sync.refused(error, now);
    if (chat_id === undefined) return this.manifest.refused(error, now);
    if (error.code === "NOT_A_MEMBER") this.#forget(chat_id);
    return true;
  }

  /** Takes a message, from a push or from the answer to an own send. */
  take(message: Message, now: number): void {
    const { chat_id, sequence } = message;
    if (this.delivery.accepts(chat_id)) this.#handOver(chat_id, this.#cursors.take(message));
    this.saw(chat_id, sequence, now);
  }

  /** Records that a sequence exists, and requests missing messages unless they arrive by push. */
  saw(chat_id: ChatId, sequence: number, now: number): void {
    this.#cursors.saw(chat_id, sequence);
    if (!this.#cursors.hasBegun(chat_id)) this.#unmet.add(chat_id);
    this.review(chat_id, now + GAP_PATIENCE_MS);
    this.#follow(now);
  }

  /** Schedules a page request, sent if messages are still missing then. */
  review(chat_id: ChatId, at: number): void {
    if (this.#isConnected && this.#hasGap(chat_id)) this.sync.want(chat_id, at);
  }

  /**
   * After a page, requests the next one at once if there is one; after a page without news, after a
   * delay.
   */
  #onPage(frame: ServerFrameOf<"sync_response">, now: number): void {
    const { chat_id, messages, has_more, head_sequence } = frame;
    const asked = this.sync.answered(frame.request_id);
    if (asked?.chat_id !== chat_id) return;
    const before = this.#cursors.reached(chat_id);
    this.#handOver(chat_id, this.#cursors.takePage(chat_id, asked.range, messages, has_more));
    this.#cursors.saw(chat_id, head_sequence);
    if (this.#cursors.reached(chat_id) > before) {
      this.sync.progressed();
      this.review(chat_id, now);
    } else if (this.#hasGap(chat_id)) {
      this.sync.wantAfterPause(chat_id, now);
    }
  }

  #onManifest(frame: ServerFrameOf<"sync_manifest">, now: number): void {
    const { request_id, chats, next_page } = frame;
    const taken = this.manifest.answered(request_id, chats, next_page, now);
    for (const { chat_id, head_sequence: head, last_acked_sequence: acked } of chats) {
      this.#begin(chat_id, head, acked);
      this.receipts.serverKnows(chat_id, acked, this.#handed.get(chat_id) ?? 0, now);
      if (taken !== "not_mine" && this.delivery.isHeard(chat_id)) {
        this.#catchUp.expect(chat_id, head, this.#cursors.reached(chat_id));
      }
      this.review(chat_id, now);
    }
    if (taken === "complete") this.#catchUp.manifestComplete();
  }

  #onChatChanged(frame: ServerFrameOf<"chat_changed">, now: number): void {
    const { chat_id, chat } = frame;
    if (chat === undefined) this.#forget(chat_id);
    else this.saw(chat_id, chat.head_sequence, now);
    this.onChatChanged.tell(frame);
  }

  /** Takes a chat and its head from the manifest, which also sets the start of an unknown chat. */
  #begin(chat_id: ChatId, head: number, acked: number): void {
    const { backlog } = this.#setup;
    this.#unmet.delete(chat_id);
    this.#cursors.saw(chat_id, head);
    const unread = backlog === "all" ? 0 : Math.max(Math.min(acked, head), head - backlog.unread_max);
    const after = Math.max(this.#handed.get(chat_id) ?? 0, unread);
    this.#handOver(chat_id, this.#cursors.begin(chat_id, after));
  }

  #handOver(chat_id: ChatId, ready: Message[]): void {
    this.delivery.push(chat_id, ready);
    this.#catchUp.reached(chat_id, this.#cursors.reached(chat_id));
  }

  #handedOver(message: Message): void {
    const { chat_id, sequence } = message;
    this.#handed.set(chat_id, sequence);
    this.receipts.handedOver(chat_id, sequence, performance.now());
    this.#setup.cursorMoved(chat_id, sequence);
    this.#setup.kick();
  }

  #hasGap(chat_id: ChatId): boolean {
    const isMissing = this.#cursors.hasGap(chat_id, this.#setup.unansweredAbove(chat_id));
    return isMissing && this.delivery.accepts(chat_id);
  }

  /** Messages are accepted again: requests the ones that were skipped. */
  #reviewAll(chat_id: ChatId | undefined): void {
    const chatIds = chat_id === undefined ? this.#cursors.chatIds() : [chat_id];
    for (const id of chatIds) this.review(id, performance.now());
    this.#setup.kick();
  }

  /**
   * Schedules the requests that follow from a frame. Only the manifest knows how far the user is in
   * an unknown chat, so messages of a chat that it did not list cause another reading of it.
   */
  #follow(now: number): void {
    if (this.#unmet.size > 0 && this.manifest.dueAt(now) === NEVER) {
      this.manifest.resync([...this.#unmet], 0, now);
      this.#unmet.clear();
    }
    if (this.#catchUp.announce()) this.onSynced.tell();
  }

  /** Removes a chat: the user is no longer a member. Its queued messages are dropped. */
  #forget(chat_id: ChatId): void {
    this.#cursors.forget(chat_id);
    this.delivery.forget(chat_id);
    this.sync.forget(chat_id);
    this.receipts.forget(chat_id);
    this.#catchUp.forget(chat_id);
    this.#setup.cursorMoved(chat_id, undefined);
  }
}
