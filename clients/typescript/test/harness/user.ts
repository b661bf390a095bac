/** A client under test, and what its application was told. */
import { WebSocket } from "ws";
import {
  Client,
  type ClientOptions,
  type Message,
  type SocketState,
  type WebSocketConstructor,
} from "../../src/index.js";
import type { ClientFrame } from "../../src/protocol.gen.js";
import { eventually } from "./eventually.js";
import { token } from "./token.js";

/** A client that writes down everything that it sends and tells. */
export class User {
  readonly client: Client;
  /** Every frame that was written to a socket. */
  readonly sent: ClientFrame[] = [];
  /** Every frame that came, as text. */
  readonly received: string[] = [];
  readonly messages: Message[] = [];
  readonly states: SocketState[] = [];
  /** Every socket that was made. */
  readonly sockets: WebSocket[] = [];
  synced = 0;
  /** Called when a frame was written, before anything can answer it. */
  onSent: (frame: ClientFrame) => void = () => {};

  constructor(
    readonly user_id: string,
    url: string | string[],
    options: Partial<ClientOptions> = {},
  ) {
    const { sent, received, sockets } = this;
    const onSent = (frame: ClientFrame) => this.onSent(frame);
    class RecordingWebSocket extends WebSocket {
      constructor(address: string, protocols: string[]) {
        super(address, protocols);
        sockets.push(this);
        this.on("message", (data) => received.push(String(data)));
      }

      override send(text: string): void {
        const frame = JSON.parse(text) as ClientFrame;
        sent.push(frame);
        super.send(text);
        onSent(frame);
      }
    }
    this.client = new Client({
      url,
      token: () => token(user_id),
      WebSocket: RecordingWebSocket as unknown as WebSocketConstructor,
      backlog: "all",
      ...options,
    });
    this.client.onState((state) => this.states.push(state));
    this.client.onSynced(() => (this.synced += 1));
  }

  /** A connected client that listens to every chat. */
  static async connected(
    user_id: string,
    url: string | string[],
    options: Partial<ClientOptions> = {},
  ): Promise<User> {
    const user = new User(user_id, url, options);
    user.listen();
    await user.client.connect();
    return user;
  }

  /** Writes down the messages of every chat. */
  listen(): void {
    this.client.onMessage((message) => void this.messages.push(message));
  }

  /** A direct chat with somebody. */
  async chatWith(other: string): Promise<string> {
    const chat = await this.client.rest.createChat({ type: "direct", member_ids: [other] });
    return chat.chat_id;
  }

  /** The contents that the application received in a chat. */
  contents(chat_id: string): string[] {
    return this.in(chat_id).map((message) => message.content);
  }

  /** The messages of a chat. */
  in(chat_id: string): Message[] {
    return this.messages.filter((message) => message.chat_id === chat_id);
  }

  /** How often a frame of this type was sent. */
  count(type: ClientFrame["type"]): number {
    return this.sent.filter((frame) => frame.type === type).length;
  }

  /** Waits until so many messages of a chat have come. */
  async hears(chat_id: string, count: number): Promise<Message[]> {
    const what = `${this.user_id} hears ${count} messages`;
    return await eventually(what, () => {
      const messages = this.in(chat_id);
      return messages.length >= count && messages;
    });
  }

  /** Waits until the client stands there. */
  async becomes(state: SocketState): Promise<void> {
    await eventually(`${this.user_id} is ${state}`, () => this.client.state === state);
  }

  /** Does something while a message is on its way that nobody has answered. */
  async inMidSend<T>(work: () => Promise<T>): Promise<T> {
    return await new Promise((resolve) => {
      this.onSent = ({ type }) => {
        if (type !== "send_message") return;
        this.onSent = () => {};
        resolve(work());
      };
    });
  }

  async close(): Promise<void> {
    await this.client.close();
  }
}

/**
 * Asserts that an application received a chat without gaps, in ascending order, each message once.
 */
export function isGapFree(messages: Message[]): boolean {
  return messages.every((message, index) => message.sequence === index + 1);
}
