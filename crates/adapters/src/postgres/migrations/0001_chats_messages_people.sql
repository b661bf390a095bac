-- The first schema: chats, their messages and members, and people.
--
-- Keys ending in _key are numbers of this database's own; ids are what the world sees. Times are
-- milliseconds since 1970 in UTC, by the clock of this server. Text that is a name of something
-- compares by its bytes. What people say is bytes, because text cannot hold U+0000.
--
-- Whoever locks rows of several chats does it in the order of chat_id, so that nobody waits for
-- each other in a circle.

-- A row outlives the person's deletion, because stored messages still name their sender.
CREATE TABLE users (
    user_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id text COLLATE "C" NOT NULL UNIQUE,
    display_name text,
    last_seen bigint,
    -- NULL while nothing was chosen; 0 everyone, 1 contacts only, 2 nobody.
    visibility smallint
) WITH (fillfactor = 90);

-- Every message changes its chat's row, so no index names what it changes: head_sequence,
-- published_sequence and newest_at. Then only the row is written, in the room that its page has.
CREATE TABLE chats (
    chat_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chat_id uuid NOT NULL UNIQUE,
    -- 0 direct, 1 group.
    kind smallint NOT NULL,
    name text,
    created_at bigint NOT NULL,
    -- The newest number. NULL is a lost counter, which halts the chat.
    head_sequence bigint,
    -- Everything up to here was announced.
    published_sequence bigint NOT NULL DEFAULT 0,
    members_version bigint NOT NULL,
    halted boolean NOT NULL DEFAULT false,
    -- When the newest message was stored; the next is not older, whatever the clock says.
    newest_at bigint NOT NULL DEFAULT 0,
    -- When the oldest message that is still here was stored; NULL while there is none.
    oldest_at bigint,
    -- The pair of a direct chat, the lower key first.
    direct_low bigint,
    direct_high bigint
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX chats_direct ON chats (direct_low, direct_high) WHERE direct_low IS NOT NULL;
CREATE INDEX chats_oldest ON chats (oldest_at) WHERE oldest_at IS NOT NULL;
CREATE INDEX chats_halted ON chats (chat_key) WHERE halted;

CREATE TABLE messages (
    chat_key bigint NOT NULL,
    sequence bigint NOT NULL,
    sender_key bigint NOT NULL,
    created_at bigint NOT NULL,
    message_id uuid NOT NULL,
    client_message_id text COLLATE "C" NOT NULL,
    -- NULL means text/plain.
    content_type bytea,
    -- NULL means that it was deleted.
    content bytea,
    PRIMARY KEY (chat_key, sequence)
);

-- A retry finds its message here, and the sweep everything that one person said in a chat. The
-- chat comes first: whatever clients name their messages, those of one chat lie together.
CREATE UNIQUE INDEX messages_once ON messages (chat_key, sender_key, client_message_id);

-- Exactly the chats whose head is ahead of what was announced. Rows come and go all the time, so
-- what they leave behind is cleaned up often.
CREATE TABLE unpublished_chats (
    chat_key bigint PRIMARY KEY,
    -- Nothing that waits is older than this.
    since bigint NOT NULL,
    -- Which store was given the chat to announce, and until when it is left to that one.
    claimed_by bigint,
    claimed_until bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX unpublished_chats_since ON unpublished_chats (since);

-- What was announced beyond a number that is not recorded yet, because another node announces that
-- one. Never ahead of the chat's head.
CREATE TABLE published_ranges (
    chat_key bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    PRIMARY KEY (chat_key, first)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Who has ever said something where, so that a deleted person's content is found again.
CREATE TABLE speakers (
    user_key bigint NOT NULL,
    chat_key bigint NOT NULL,
    PRIMARY KEY (user_key, chat_key)
);

CREATE TABLE members (
    chat_key bigint NOT NULL,
    user_key bigint NOT NULL,
    -- 0 owner, 1 admin, 2 member.
    role smallint NOT NULL,
    -- Rises with every member that comes: who has the lowest has been here longest.
    join_order bigint NOT NULL,
    last_acked_sequence bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (chat_key, user_key)
) WITH (fillfactor = 80);

CREATE INDEX members_by_user ON members (user_key, chat_key);

-- Who has put whom as a contact.
CREATE TABLE contacts (
    user_key bigint NOT NULL,
    contact_key bigint NOT NULL,
    PRIMARY KEY (user_key, contact_key)
);

-- For the going of a person, who is then nobody's contact.
CREATE INDEX contacts_by_contact ON contacts (contact_key);

-- The first result of each Idempotency-Key, for a day.
CREATE TABLE idempotency_keys (
    user_key bigint NOT NULL,
    route text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    created_at bigint NOT NULL,
    members_version bigint NOT NULL,
    chat text NOT NULL,
    PRIMARY KEY (user_key, route, key)
);

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Chats whose messages are still to be removed.
CREATE TABLE deleted_chats (
    chat_key bigint PRIMARY KEY
);

-- Whose content is still to be removed, and where: up to last_sequence, so that what a person
-- says after coming back stays. The sweep goes by client_message_id and has come this far.
CREATE TABLE erasures (
    user_key bigint NOT NULL,
    chat_key bigint NOT NULL,
    last_sequence bigint NOT NULL,
    done_client_message_id text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (user_key, chat_key)
);

-- What operators did to counters.
CREATE TABLE repairs (
    repaired_at bigint NOT NULL,
    chat_id uuid NOT NULL,
    head_before bigint,
    head_after bigint NOT NULL
);

-- The time of this server in milliseconds; within one transaction it may differ.
CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;
