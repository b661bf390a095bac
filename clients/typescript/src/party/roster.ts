/** The members of a session, and the leader. */

import { type SessionEvent, type SessionUser, userOf } from "./events.js";

/**
 * The members, from the session's events. A stream starts with every present member, as events
 * without a sequence, and then the leader; it repeats them if its listener fell behind. Members
 * that are not among them have left.
 */
export class Roster {
  #members: readonly SessionUser[] = Object.freeze([]);
  #leaderId: string | null = null;
  /** The members received so far, during a full list. */
  #gathered: SessionUser[] | null = null;
  #sequence: number | null = null;

  /** The members, in the order in which they joined. The same object until it changes. */
  get members(): readonly SessionUser[] {
    return this.#members;
  }

  /** The leader. */
  get leaderId(): string | null {
    return this.#leaderId;
  }

  /** The members, from the answer to a join. */
  set(users: readonly SessionUser[]): void {
    this.#leaderId = users.find((user) => user.isLeader)?.id ?? null;
    this.#show(users);
  }

  /** A new stream starts. */
  restart(): void {
    this.#gathered = null;
    this.#sequence = null;
  }

  /** Takes an event. Returns false if an earlier one is missing. */
  hear(event: SessionEvent): boolean {
    if (event.type === "UserJoined" && event.sequence === null) {
      this.#gathered = upserted(this.#gathered ?? [], event.user);
      return true;
    }
    const members = this.#gathered ?? this.#members;
    this.#gathered = null;
    const { sequence } = event;
    const isNext = this.#sequence === null || sequence === null || sequence === this.#sequence + 1;
    this.#sequence = sequence;
    this.#apply(event, members);
    return isNext;
  }

  #apply(event: SessionEvent, members: readonly SessionUser[]): void {
    switch (event.type) {
      case "UserJoined":
        return this.#show(upserted(members, event.user));
      case "UserLeft":
        return this.#show(members.filter((user) => user.id !== event.userId));
      case "LeaderChanged":
        this.#leaderId = event.leaderId;
        return this.#show(members);
      case "SessionEnded":
        this.#leaderId = null;
        return this.#show([]);
    }
  }

  #show(members: readonly SessionUser[]): void {
    const leaderId = this.#leaderId;
    const shown = members.map((user) => userOf({ ...user, isLeader: user.id === leaderId }));
    this.#members = Object.freeze(shown);
  }
}

function upserted(members: readonly SessionUser[], user: SessionUser): SessionUser[] {
  const isSame = (other: SessionUser) => other.id === user.id;
  const isKnown = members.some(isSame);
  return isKnown ? members.map((other) => (isSame(other) ? user : other)) : [...members, user];
}
