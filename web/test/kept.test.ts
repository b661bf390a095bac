/** Objects that are closed remove their listeners; tested on a client without a browser. */
import type { Client } from "heartline";
import { afterEach, expect, test, vi } from "vitest";
import { Chats } from "../src/model/chats.js";

/** Conversations that are kept, and the listener of the list of chats itself. */
const LISTENERS_MAX = 20 + 1;

/** A client to whom nothing happens, and who listens to its state. */
function idleClient(): { client: Client; listeners: Set<unknown> } {
  const listeners = new Set<unknown>();
  const onState = (listener: unknown) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  const never = () => () => {};
  const client = {
    onState,
    onMessage: never,
    onChatChanged: never,
    onTyping: never,
    onRefused: never,
    outbox: { onChange: never, list: async () => [] },
    rest: { listChats: async () => ({ items: [] }), leaveChat: async () => {} },
  };
  return { client: client as unknown as Client, listeners };
}

/** A window that counts who listens to it. */
class CountingWindow {
  readonly listeners = new Set<unknown>();

  addEventListener(_type: string, listener: unknown): void {
    this.listeners.add(listener);
  }

  removeEventListener(_type: string, listener: unknown): void {
    this.listeners.delete(listener);
  }
}

afterEach(() => {
  vi.unstubAllGlobals();
});

test("a conversation that is put aside, or whose chat is left, listens no longer", async () => {
  vi.stubGlobal("window", new CountingWindow());
  const { client, listeners } = idleClient();
  const chats = new Chats(client, "ana");
  for (let number = 0; number < 50; number += 1) chats.conversation(`chat_${number}`);
  expect(listeners.size).toBe(LISTENERS_MAX);
  await chats.leave("chat_49");
  expect(listeners.size).toBe(LISTENERS_MAX - 1);
});

test("somebody who has signed out is told of nothing that other tabs do", () => {
  const window = new CountingWindow();
  vi.stubGlobal("window", window);
  const { client, listeners } = idleClient();
  const chats = new Chats(client, "ana");
  chats.conversation("chat_1");
  expect(window.listeners.size).toBe(1);
  chats.close();
  expect([window.listeners.size, listeners.size]).toEqual([0, 1]);
});
