/** Who is in a session, and who leads. */

import { type SessionEvent, type SessionUser, userOf } from "./events.js";

/**
 * The members, as the session's events tell of them. A stream begins with everybody who is here, as
 * events without a number, and then who leads; it says the same again if its listener fell behind.
 * Whoever is not among them has left.
 */
export class Roster {
  #members: readonly SessionUser[] = Object.freeze([]);
  #leaderId: string | null = null;
  /** Those who were told of so far, while everybody is told of. */
  #gathered: SessionUser[] | null = null;
  #sequence: number | null = null;

  /** The members, those first who have been here longest. The same object until it changes. */
  get members(): readonly SessionUser[] {
    return this.#members;
  }

  /** Who leads. */
  get leaderId(): string | null {
    return this.#leaderId;
  }

  /** Everybody who is here, as a join answers it. */
  set(users: readonly SessionUser[]): void {
    this.#leaderId = users.find((user) => user.isLeader)?.id ?? null;
    this.#show(users);
  }

  /** A new stream begins. */
  restart(): void {
    this.#gathered = null;
    this.#sequence = null;
  }

  /** Hears an event. Answers false if another came before it that was not heard. */
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
