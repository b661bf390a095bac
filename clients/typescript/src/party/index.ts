/**
 * Party sessions: a shared queue whose edits are shown at once and confirmed by the server.
 *
 * @example
 * const party = new Party({ url: "https://example.com" });
 * party.subscribe(() => show(party.state));
 * await party.start({ queue: localQueue }, { boardPath: "/kilter/1/10/26_27/40" });
 * await party.add(item);
 */

export { baseBoardPath, changesBoard } from "./board_path.js";
export { canonicalJson } from "./canonical.js";
export type { WebSocketConstructor, WebSocketLike } from "../connection.js";
export { PartyError, type PartyErrorCode } from "./error.js";
export type { SessionUser } from "./events.js";
export { contentHash, orderHash, stateHash } from "./hash.js";
export type { Climb, ClimbQueueItem, QueueItemUser } from "./item.js";
export type { ErrorCode } from "../protocol.gen.js";
export { type JoinOptions, type LocalQueue, Party, type PartyOptions } from "./party.js";
export type { PartyStorage, RememberedSession } from "./remembered.js";
export type { PartyState, PartyStatus } from "./state.js";
