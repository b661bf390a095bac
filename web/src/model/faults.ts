/** The faults that the page can inject into the client library's socket. */
import type { Chats } from "./chats.js";
import { errorText } from "./chats.js";
import { suggestion } from "./climbs.js";
import { FaultLog, partyEvent } from "./fault_log.js";
import type { Identity } from "./identity.js";
import type { Room } from "./room.js";
import { Metrics } from "./metrics.js";
import { Observable } from "./observable.js";
import type { Operator } from "./server.js";
import { HAS_STREAMS } from "./stream_socket.js";
import type { Frame, SocketTap } from "./tapped_socket.js";
import { uuid } from "./uuid.js";

/** The chat used by the faults, and its second member. */
export const CHAT_NAME = "Break it";
const ROBOT = "robot";
/** The lifetime of a token for the expiry fault. */
const SHORT_LIFE_SECONDS = 3;
/** The messages of a flood: twice the burst. */
const FLOOD_MESSAGES = 40;
/** The time limit for the answers to a flood. */
const FLOOD_TIMEOUT_MS = 10_000;

/** The pushes to a stalled reader: more than an outbox and the network can buffer. */
const BALLAST_BYTES = 15_000;
const BALLAST_PUSHES = 1000;
const BALLAST_AT_ONCE = 20;
/** Counts connections closed as slow consumers. */
const SLOW_METRIC = "gateway_slow_consumer_disconnects_total";

/** The dependencies of the faults. */
export interface FaultsSetup {
  identity: Identity;
  operator: Operator;
  chats: Chats;
  room: Room;
  chatTap: SocketTap;
  partyTap: SocketTap;
}

/** The faults. */
export class Faults extends Observable {
  readonly log: FaultLog;
  readonly #setup: FaultsSetup;

  constructor(setup: FaultsSetup) {
    super();
    this.#setup = setup;
    this.log = new FaultLog(setup.chatTap, setup.partyTap);
  }

  /** Drops the socket. */
  async drop(): Promise<void> {
    this.log.begin("You dropped the connection, as a network failure does.");
    this.#setup.chatTap.current?.drop();
    await this.#speak(1);
  }

  /** Stops reading while the robot sends messages. */
  async stall(): Promise<void> {
    await this.#try(async () => {
      if (HAS_STREAMS) await this.#stream();
      this.log.begin("You stopped reading. The robot sends three messages meanwhile.");
      const stalled = this.#setup.chatTap.current;
      stalled?.stall(true);
      if (HAS_STREAMS) await this.#weighDown();
      await this.#speak(3);
      // Otherwise the missing heartbeats end the connection.
      if (HAS_STREAMS) stalled?.stall(false);
    });
  }

  /**
   * Connects with a token that expires soon, and withholds the next one until the server closes the
   * connection, or another fault ends it before.
   */
  async expire(): Promise<void> {
    const { identity, chatTap } = this.#setup;
    if (identity.shortLifeSeconds !== undefined) return;
    this.log.begin(`You reconnect with a token of ${SHORT_LIFE_SECONDS} s; new tokens are withheld.`);
    identity.shortLifeSeconds = SHORT_LIFE_SECONDS;
    const stop = chatTap.listen((event) => {
      const type = event.kind === "received" ? event.frame.type : undefined;
      if (type === "connection_established") identity.isWithheld = true;
      const isOver = identity.isWithheld && event.kind === "closed";
      if (!isOver && type !== "connection_closing") return;
      stop();
      identity.isWithheld = false;
      identity.shortLifeSeconds = undefined;
      this.log.write("deed", "New tokens are available again.");
    });
    chatTap.current?.drop();
  }

  /** Sends more than the rate limit, bypassing the library, which would stay within it. */
  async flood(): Promise<void> {
    await this.#try(async () => {
      const chat_id = await this.#chat();
      this.log.begin(`You send ${FLOOD_MESSAGES} messages at once, bypassing the client's rate limit.`);
      const { stored, refused, retryAfter } = await this.#floodIn(chat_id);
      this.log.write("good", `${stored} messages were stored and acknowledged.`);
      const wait = `try again after ${retryAfter} s`;
      const text = `${refused} were rejected with RATE_LIMITED: ${wait}. The connection stayed open.`;
      if (refused > 0) this.log.write("contract", text);
    });
  }

  /** Drops one message, and lets another one follow. */
  async lose(): Promise<void> {
    await this.#try(async () => {
      const chat_id = await this.#chat();
      this.log.begin("The next message to you is dropped before the client reads it; another one follows.");
      const { chatTap } = this.#setup;
      chatTap.swallows = (frame) => {
        const isIt = frame.type === "message" && frame["chat_id"] === chat_id;
        if (isIt) chatTap.swallows = undefined;
        return isIt;
      };
      await this.#speak(2);
    });
  }

  /** Drops one event of the party, and lets another one follow. */
  async loseOfParty(): Promise<void> {
    const { room, partyTap, identity } = this.#setup;
    if (room.state.status !== "live") {
      this.log.begin("You are in no party. Start one first.");
      return;
    }
    this.log.begin("The next party event is dropped before the client reads it; another one follows.");
    partyTap.swallows = (frame: Frame) => {
      const event = partyEvent(frame);
      const isIt = event !== undefined && event["__typename"] !== "FullSync";
      if (isIt) partyTap.swallows = undefined;
      return isIt;
    };
    const item = suggestion(room.queue, identity.user_id);
    await room.add(item);
    await room.remove(item.uuid);
  }

  /** Reconnects with a socket whose reader can be stopped. */
  async #stream(): Promise<void> {
    const { chatTap } = this.#setup;
    this.log.write("deed", "You reconnect with a socket whose reader can block the server.");
    chatTap.makesStreams = true;
    await new Promise<void>((resolve) => {
      const stop = chatTap.listen((event) => {
        if (event.kind !== "received" || event.frame.type !== "connection_established") return;
        stop();
        resolve();
      });
      chatTap.current?.drop();
    });
    chatTap.makesStreams = false;
  }

  /**
   * Pushes more to the user than a connection's buffer holds, and reports the server's reaction.
   */
  async #weighDown(): Promise<void> {
    const { operator, identity } = this.#setup;
    const cut = async () => new Metrics(await operator.metrics(), 0).value(SLOW_METRIC);
    const before = await cut();
    const ballast = { filler: "x".repeat(BALLAST_BYTES) };
    for (let sent = 0; sent < BALLAST_PUSHES; sent += BALLAST_AT_ONCE) {
      const pushes = Array.from({ length: BALLAST_AT_ONCE }, () =>
        operator.push(identity.user_id, "ballast", ballast),
      );
      await Promise.all(pushes);
      if ((await cut()) === before) continue;
      const text = "The server closed a slow consumer: its buffer of 1 MiB was full.";
      return this.log.write("contract", text);
    }
    this.log.write("fault", "The server has not closed the connection: this browser read everything.");
  }

  async #floodIn(
    chat_id: string,
  ): Promise<{ stored: number; refused: number; retryAfter: number }> {
    const { chatTap } = this.#setup;
    const prefix = `flood-${uuid().slice(0, 8)}-`;
    const outcome = { stored: 0, refused: 0, retryAfter: 0 };
    const answered = new Promise<void>((resolve) => {
      const stop = chatTap.listen((event) => {
        if (event.kind !== "received") return;
        const { frame } = event;
        if (!String(frame["request_id"] ?? "").startsWith(prefix)) return;
        if (frame.type === "message_ack") outcome.stored += 1;
        else outcome.refused += 1;
        outcome.retryAfter = Number(frame["retry_after_seconds"] ?? outcome.retryAfter);
        if (outcome.stored + outcome.refused < FLOOD_MESSAGES) return;
        stop();
        resolve();
      });
      setTimeout(resolve, FLOOD_TIMEOUT_MS);
    });
    for (let index = 1; index <= FLOOD_MESSAGES; index += 1) {
      const request_id = `${prefix}${index}`;
      const content = `Flood ${index}`;
      const frame = {
        type: "send_message",
        request_id,
        chat_id,
        client_message_id: request_id,
        content,
      };
      chatTap.current?.send(JSON.stringify(frame));
    }
    await answered;
    return outcome;
  }

  /** Lets the robot send messages. */
  async #speak(times: number): Promise<void> {
    await this.#try(async () => {
      const chat_id = await this.#chat();
      for (let time = 1; time <= times; time += 1) {
        await this.#setup.operator.sendAs(
          ROBOT,
          chat_id,
          `Did you get this? (${time} of ${times})`,
        );
      }
    });
  }

  /** Returns the chat with the robot. */
  async #chat(): Promise<string> {
    const { chats } = this.#setup;
    const isIt = (name: string | undefined) => name === CHAT_NAME;
    const found = chats.list.find((entry) => isIt(entry.chat.name));
    return found?.chat.chat_id ?? (await chats.create([ROBOT], CHAT_NAME));
  }

  async #try(action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      this.log.write("fault", `The fault could not be injected: ${errorText(error)}.`);
    }
  }
}
