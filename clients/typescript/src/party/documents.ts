/** The GraphQL documents that the client sends. */

import type { Edit } from "./edit.js";

/** Every field, because the order hash covers all of them. */
const ITEM = `uuid climb { uuid layoutId setter_username name description frames angle
  ascensionist_count difficulty quality_average stars difficulty_error litUpHoldsMap mirrored
  benchmark_difficulty userAscents userAttempts boardType }
  addedBy addedByUser { id username avatarUrl } tickedBy suggested`;

const STAMP = "sequence incarnation stateHash orderHash clientId correlationId";

/**
 * One selection for stream and replay. `item` is nullable in one type only and therefore has two
 * names.
 */
const QUEUE_EVENT = `__typename
  ... on FullSync { state { sequence incarnation stateHash orderHash queue { ${ITEM} }
    currentClimbQueueItem { ${ITEM} } } }
  ... on QueueItemAdded { ${STAMP} addedItem: item { ${ITEM} } position }
  ... on QueueItemRemoved { ${STAMP} uuid }
  ... on QueueReordered { ${STAMP} uuid oldIndex newIndex }
  ... on CurrentClimbChanged { ${STAMP} currentItem: item { ${ITEM} } }
  ... on ClimbMirrored { ${STAMP} mirrored }`;

/** The stream of the queue. */
export const QUEUE_UPDATES = `subscription ($sessionId: ID!) {
  queueUpdates(sessionId: $sessionId) { ${QUEUE_EVENT} } }`;

/** The stream of the members. */
export const SESSION_UPDATES = `subscription ($sessionId: ID!) {
  sessionUpdates(sessionId: $sessionId) { __typename
    ... on UserJoined { sequence user { id username isLeader avatarUrl } }
    ... on UserLeft { sequence userId }
    ... on LeaderChanged { sequence leaderId }
    ... on SessionEnded { sequence reason newPath } } }`;

/** Joins a session. The queue arrives with its stream, so it is not selected here. */
export const JOIN = `mutation ($sessionId: ID!, $boardPath: String!, $username: String,
  $avatarUrl: String, $initialQueue: [ClimbQueueItemInput!],
  $initialCurrentClimb: ClimbQueueItemInput, $sessionName: String, $resumeToken: String) {
  joinSession(sessionId: $sessionId, boardPath: $boardPath, username: $username,
    avatarUrl: $avatarUrl, initialQueue: $initialQueue, initialCurrentClimb: $initialCurrentClimb,
    sessionName: $sessionName, resumable: true, resumeToken: $resumeToken) {
    name boardPath clientId resumeToken users { id username isLeader avatarUrl } } }`;

/** The events after a sequence. */
export const EVENTS_REPLAY = `query ($sessionId: ID!, $sinceSequence: Int!) {
  eventsReplay(sessionId: $sessionId, sinceSequence: $sinceSequence) {
    events { ${QUEUE_EVENT} } } }`;

/** The position and the hashes of the queue, without the items. */
export const QUEUE_HEAD = `query ($sessionId: ID!) { session(sessionId: $sessionId) {
  queueState { sequence incarnation stateHash orderHash } } }`;

export const LEAVE = "mutation { leaveSession }";

export const END = "mutation ($sessionId: ID!) { endSession(sessionId: $sessionId) { sessionId } }";

export const UPDATE_USERNAME = `mutation ($username: String!, $avatarUrl: String) {
  updateUsername(username: $username, avatarUrl: $avatarUrl) }`;

/** An operation with its variables. */
export interface Request {
  readonly query: string;
  readonly variables: Record<string, unknown>;
}

const EDITS: Record<Edit["name"], string> = {
  addQueueItem: `mutation ($item: ClimbQueueItemInput!, $position: Int, $correlationId: ID) {
    addQueueItem(item: $item, position: $position, correlationId: $correlationId) { uuid } }`,
  removeQueueItem: `mutation ($uuid: ID!, $correlationId: ID) {
    removeQueueItem(uuid: $uuid, correlationId: $correlationId) }`,
  reorderQueueItem: `mutation ($uuid: ID!, $oldIndex: Int!, $newIndex: Int!, $correlationId: ID) {
    reorderQueueItem(uuid: $uuid, oldIndex: $oldIndex, newIndex: $newIndex,
      correlationId: $correlationId) }`,
  setCurrentClimb: `mutation ($item: ClimbQueueItemInput, $shouldAddToQueue: Boolean,
    $correlationId: ID) { setCurrentClimb(item: $item, shouldAddToQueue: $shouldAddToQueue,
      correlationId: $correlationId) { uuid } }`,
  mirrorCurrentClimb: `mutation ($mirrored: Boolean!, $correlationId: ID) {
    mirrorCurrentClimb(mirrored: $mirrored, correlationId: $correlationId) { uuid } }`,
  replaceQueueItem: `mutation ($uuid: ID!, $item: ClimbQueueItemInput!, $correlationId: ID) {
    replaceQueueItem(uuid: $uuid, item: $item, correlationId: $correlationId) { uuid } }`,
  setQueue: `mutation ($queue: [ClimbQueueItemInput!]!, $current: ClimbQueueItemInput,
    $correlationId: ID) { setQueue(queue: $queue, currentClimbQueueItem: $current,
      correlationId: $correlationId) { sequence incarnation } }`,
};

/** The operation of an edit, with its correlation id. */
export function requestOf(edit: Edit, correlationId: string): Request {
  const { name, ...variables } = edit;
  return { query: EDITS[name], variables: { ...variables, correlationId } };
}
