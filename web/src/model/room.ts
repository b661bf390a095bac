/** The party of this tab: a local queue until it is shared. */
import { type ClimbQueueItem, Party, type PartyState } from "heartline/party";
import { BOARD_PATH, firstQueue } from "./climbs.js";
import type { Identity } from "./identity.js";
import { Observable } from "./observable.js";
import { socketUrl } from "./server.js";
import type { SocketTap } from "./tapped_socket.js";

/** The party, and the local queue before it. */
export class Room extends Observable {
  /** The client library's party. */
  readonly party: Party;
  /** The local queue. */
  local: readonly ClimbQueueItem[];
  /** The last error. */
  refusal: string | undefined;
  readonly #identity: Identity;
  /** Whether the session was joined by a link. */
  #isByLink = false;

  constructor(identity: Identity, tap: SocketTap) {
    super();
    this.#identity = identity;
    this.local = firstQueue(identity.user_id);
    this.party = new Party({
      url: socketUrl("/graphql"),
      token: () => identity.token(),
      WebSocket: tap.socketClass(),
    });
    this.party.subscribe(() => {
      this.#keep();
      this.changed();
    });
    if (this.party.remembered !== null) void this.#try(this.party.resume());
  }

  get state(): PartyState {
    return this.party.state;
  }

  /** Whether the queue is shared, or is about to be. */
  get isShared(): boolean {
    return ["joining", "live", "reconnecting"].includes(this.state.status);
  }

  /** The visible items. */
  get queue(): readonly ClimbQueueItem[] {
    return this.isShared ? this.state.queue : this.local;
  }

  /** Whether a link led to an empty session: every id is a session, also a mistyped one. */
  get isUnheardOf(): boolean {
    const { sequence, members, queue } = this.state;
    const isEmpty = members.length <= 1 && queue.length === 0;
    return this.#isByLink && this.isShared && sequence === 0 && isEmpty;
  }

  /** Starts a party with the local queue. */
  async start(): Promise<void> {
    this.#isByLink = false;
    const current = this.local[0] ?? null;
    await this.#try(this.party.start({ queue: this.local, current }, this.#joining()));
  }

  /** Joins a session by its id. */
  async join(sessionId: string): Promise<void> {
    if (this.isShared && this.state.sessionId === sessionId) return;
    this.#isByLink = true;
    await this.#try(this.party.join(sessionId, this.#joining()));
  }

  async leave(): Promise<void> {
    await this.#try(this.party.leave());
  }

  async end(): Promise<void> {
    await this.#try(this.party.end());
  }

  async add(item: ClimbQueueItem): Promise<void> {
    if (this.isShared) return await this.#try(this.party.add(item));
    this.#setLocal([...this.local, item]);
  }

  async remove(uuid: string): Promise<void> {
    if (this.isShared) return await this.#try(this.party.remove(uuid));
    this.#setLocal(this.local.filter((item) => item.uuid !== uuid));
  }

  /** Moves an item to an index. */
  async move(uuid: string, index: number): Promise<void> {
    if (this.isShared) return await this.#try(this.party.reorder(uuid, index));
    const item = this.local.find((one) => one.uuid === uuid);
    const others = this.local.filter((one) => one.uuid !== uuid);
    if (item !== undefined) this.#setLocal(others.toSpliced(index, 0, item));
  }

  async setCurrent(item: ClimbQueueItem): Promise<void> {
    await this.#try(this.party.setCurrent(item));
  }

  async mirror(mirrored: boolean): Promise<void> {
    await this.#try(this.party.mirror(mirrored));
  }

  #joining(): { boardPath: string; username: string } {
    return { boardPath: BOARD_PATH, username: this.#identity.user_id };
  }

  /** Keeps a copy of the shared queue for after the party. */
  #keep(): void {
    const { status, sequence, queue } = this.state;
    const isIn = status === "live" || status === "reconnecting";
    // A mistyped link must not replace the local queue.
    if (isIn && sequence !== null && !this.isUnheardOf) this.local = queue;
  }

  #setLocal(local: readonly ClimbQueueItem[]): void {
    this.local = local;
    this.changed();
  }

  /** Stores the error of a failed action and renders again. */
  async #try(action: Promise<unknown>): Promise<void> {
    this.refusal = undefined;
    try {
      await action;
    } catch (error) {
      this.refusal = error instanceof Error ? error.message : String(error);
      this.changed();
    }
  }
}
