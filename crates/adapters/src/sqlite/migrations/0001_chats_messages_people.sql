-- The first schema: chats, their messages and members, and people.
--
-- Keys ending in _key are small integers of this file's own; ids are what the world sees.
-- Times are milliseconds since 1970 in UTC.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A row outlives the person's deletion, because stored messages still name their sender.
CREATE TABLE users (
    user_key INTEGER PRIMARY KEY,
    user_id TEXT NOT NULL UNIQUE,
    display_name TEXT,
    last_seen INTEGER
) STRICT;

-- Keys are never used twice: messages of a deleted chat stay until they are swept away.
CREATE TABLE chats (
    chat_key INTEGER PRIMARY KEY AUTOINCREMENT,
    chat_id BLOB NOT NULL UNIQUE,
    kind INTEGER NOT NULL,
    name TEXT,
    created_at INTEGER NOT NULL,
    -- The newest number. NULL is a lost counter, which halts the chat.
    head_sequence INTEGER,
    -- Everything up to here was announced.
    published_sequence INTEGER NOT NULL DEFAULT 0,
    members_version INTEGER NOT NULL,
    halted INTEGER NOT NULL DEFAULT 0,
    -- When the oldest message that is still here was stored; NULL while there is none.
    oldest_at INTEGER,
    -- The pair of a direct chat, the lower key first.
    direct_low INTEGER,
    direct_high INTEGER
) STRICT;

CREATE UNIQUE INDEX chats_direct ON chats (direct_low, direct_high) WHERE direct_low IS NOT NULL;
CREATE INDEX chats_unpublished ON chats (chat_key) WHERE head_sequence > published_sequence;
CREATE INDEX chats_oldest ON chats (oldest_at) WHERE oldest_at IS NOT NULL;

-- The id is chat_key << 32 | sequence: it makes (chat, sequence) unique and keeps a chat's
-- messages side by side, without an index of its own.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    chat_key INTEGER NOT NULL,
    sender_key INTEGER NOT NULL,
    client_message_id TEXT NOT NULL,
    message_id BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    -- NULL means text/plain.
    content_type TEXT,
    -- NULL means that it was deleted.
    content TEXT
) STRICT;

-- The client's own name comes first: clients that name messages by time then write at the end of
-- this index and not all over it, which spares a third of what a message costs.
CREATE UNIQUE INDEX messages_once ON messages (client_message_id, sender_key, chat_key);

-- Who has ever said something where, so that a deleted person's content is found again.
CREATE TABLE speakers (
    user_key INTEGER NOT NULL,
    chat_key INTEGER NOT NULL,
    PRIMARY KEY (user_key, chat_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE members (
    chat_key INTEGER NOT NULL,
    user_key INTEGER NOT NULL,
    role INTEGER NOT NULL,
    -- Rises with every member that comes: who has the lowest has been here longest.
    join_order INTEGER NOT NULL,
    last_acked_sequence INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (chat_key, user_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX members_by_user ON members (user_key);

-- The first result of each Idempotency-Key, for a day.
CREATE TABLE idempotency_keys (
    user_key INTEGER NOT NULL,
    route TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    members_version INTEGER NOT NULL,
    chat TEXT NOT NULL,
    PRIMARY KEY (user_key, route, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Chats whose messages are still to be removed.
CREATE TABLE deleted_chats (
    chat_key INTEGER PRIMARY KEY
) STRICT;

-- Whose content is still to be removed, and where: up to last_sequence, so that what a person
-- says after coming back stays. done_sequence is how far the sweep has come.
CREATE TABLE erasures (
    user_key INTEGER NOT NULL,
    chat_key INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    done_sequence INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (user_key, chat_key)
) STRICT, WITHOUT ROWID;

-- What operators did to counters.
CREATE TABLE repairs (
    repaired_at INTEGER NOT NULL,
    chat_id BLOB NOT NULL,
    head_before INTEGER,
    head_after INTEGER NOT NULL
) STRICT;
