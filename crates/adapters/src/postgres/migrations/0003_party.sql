-- The archive of party sessions. What is asked for without knowing an id has a column; details are
-- all of these as JSON, and the document is the whole session. status: 0 active, 1 inactive, 2 ended.
CREATE TABLE party_archive (
    session_id text COLLATE "C" PRIMARY KEY,
    incarnation bigint NOT NULL,
    version bigint NOT NULL,
    status smallint NOT NULL,
    members integer NOT NULL,
    active_at bigint NOT NULL,
    creator text COLLATE "C",
    discoverable boolean NOT NULL,
    latitude double precision,
    longitude double precision,
    is_permanent boolean NOT NULL,
    details bytea NOT NULL,
    document bytea NOT NULL
);

CREATE INDEX party_archive_place ON party_archive (latitude, longitude)
    WHERE discoverable AND status <> 2;
CREATE INDEX party_archive_creator ON party_archive (creator)
    WHERE creator IS NOT NULL;
CREATE INDEX party_archive_idle ON party_archive (active_at)
    WHERE members = 0 AND status <> 2 AND NOT is_permanent;

-- Accounts that have been members.
CREATE TABLE party_participants (
    account text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (account, session_id)
);

CREATE INDEX party_participants_by_session ON party_participants (session_id);

-- How far apart two places are along the ground, in metres (haversine, on a ball).
CREATE FUNCTION distance_metres(
    latitude double precision,
    longitude double precision,
    other_latitude double precision,
    other_longitude double precision
) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 2 * 6371000 * asin(sqrt(least(1, greatest(0,
        sin(radians(other_latitude - latitude) / 2) ^ 2
        + cos(radians(latitude)) * cos(radians(other_latitude))
            * sin(radians(other_longitude - longitude) / 2) ^ 2))))
$$;
