-- Party sessions: the newest state of each with its log, and the archive.

CREATE TABLE party_sessions (
    session_key INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    incarnation INTEGER NOT NULL,
    version INTEGER NOT NULL,
    -- Whether it has members.
    is_active INTEGER NOT NULL,
    -- When it was last committed to, or said to have members where it had none.
    alive_at INTEGER NOT NULL
) STRICT;

CREATE INDEX party_sessions_active ON party_sessions (session_key) WHERE is_active = 1;

CREATE TABLE party_fields (
    field_key INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (session_key, name)
) STRICT;

-- What the newest commits of a session were, without a hole.
CREATE TABLE party_entries (
    entry_key INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL,
    version INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    entry BLOB NOT NULL,
    UNIQUE (session_key, version)
) STRICT;

-- What is asked for without knowing an id has a column; details are all of these as JSON, and the
-- document is the whole session. status: 0 active, 1 inactive, 2 ended.
CREATE TABLE party_archive (
    archive_key INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    incarnation INTEGER NOT NULL,
    version INTEGER NOT NULL,
    status INTEGER NOT NULL,
    members INTEGER NOT NULL,
    active_at INTEGER NOT NULL,
    creator TEXT,
    discoverable INTEGER NOT NULL,
    latitude REAL,
    longitude REAL,
    is_permanent INTEGER NOT NULL,
    details BLOB NOT NULL,
    document BLOB NOT NULL
) STRICT;

CREATE INDEX party_archive_place ON party_archive (latitude, longitude)
    WHERE discoverable = 1 AND status <> 2;
CREATE INDEX party_archive_creator ON party_archive (creator) WHERE creator IS NOT NULL;
CREATE INDEX party_archive_idle ON party_archive (active_at)
    WHERE members = 0 AND status <> 2 AND is_permanent = 0;

-- Accounts that have been members.
CREATE TABLE party_participants (
    account TEXT NOT NULL,
    archive_key INTEGER NOT NULL,
    PRIMARY KEY (account, archive_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX party_participants_by_session ON party_participants (archive_key);
