-- What is done often, each in one call: the caller's connection may break or stand still at any
-- moment, and no lock outlives the call.
--
-- Each function takes its locks in a statement of its own. The next statement then sees what
-- whoever held them before has committed; within one statement it would not. A lookup is written
-- as LATERAL (… LIMIT 1) where a join would mean the same, because the planner then goes by the
-- index whatever it thinks of tables that were small when the plan was made.

-- Stores messages in their order and answers one row for each, in any order. outcome: 0 stored
-- now, 1 stored before, 2 not a member, 3 the chat is halted, 4 the chat's counter is missing or
-- ahead of its messages, 5 its next number is taken. The same (chat, sender, client_message_id)
-- must not come twice in one call.
CREATE FUNCTION append(
    chat_ids uuid[],
    sender_ids text[],
    client_message_ids text[],
    message_ids uuid[],
    content_types bytea[],
    contents bytea[]
) RETURNS TABLE (
    place bigint,
    outcome smallint,
    sequence bigint,
    created_at bigint,
    members_version bigint,
    published boolean,
    message_id uuid,
    content_type bytea,
    content bytea
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint;
BEGIN
    PERFORM 1 FROM heartline.chats c WHERE c.chat_id = ANY (chat_ids)
        ORDER BY c.chat_id FOR NO KEY UPDATE;
    now_ms := heartline.now_ms();
    RETURN QUERY
    WITH known AS MATERIALIZED (
        SELECT n.place, n.client_message_id, n.message_id, n.content_type, n.content,
            c.chat_key, c.head_sequence, c.published_sequence, c.members_version,
            c.outcome AS chat_outcome, greatest(c.newest_at, now_ms) AS created_at,
            u.user_key, u.has_spoken, m.is_member,
            s.sequence AS stored_sequence, s.created_at AS stored_at,
            s.message_id AS stored_id, s.content_type AS stored_type, s.content AS stored_content,
            row_number() OVER (
                PARTITION BY c.chat_key, s.sequence IS NULL AND m.is_member AND c.outcome = 0
                ORDER BY n.place
            ) AS number
        FROM unnest(
                chat_ids, sender_ids, client_message_ids, message_ids, content_types, contents
            ) WITH ORDINALITY AS n (
                chat_id, sender_id, client_message_id, message_id, content_type, content, place
            )
        LEFT JOIN LATERAL (
            SELECT k.chat_key, k.head_sequence, k.published_sequence, k.members_version,
                k.newest_at,
                CASE
                    WHEN k.halted THEN 3
                    WHEN k.head_sequence IS NULL THEN 4
                    ELSE coalesce((
                        SELECT CASE
                            WHEN newest.sequence > k.head_sequence THEN 5
                            WHEN newest.sequence < k.head_sequence THEN 4
                            ELSE 0
                        END
                        FROM heartline.messages newest WHERE newest.chat_key = k.chat_key
                        ORDER BY newest.sequence DESC LIMIT 1
                    ), 0)
                END AS outcome
            FROM heartline.chats k WHERE k.chat_id = n.chat_id LIMIT 1
        ) c ON true
        LEFT JOIN LATERAL (
            SELECT k.user_key, EXISTS (
                SELECT 1 FROM heartline.speakers spoken
                WHERE spoken.user_key = k.user_key AND spoken.chat_key = c.chat_key
            ) AS has_spoken
            FROM heartline.users k WHERE k.user_id = n.sender_id LIMIT 1
        ) u ON true
        LEFT JOIN LATERAL (
            SELECT true AS is_member FROM heartline.members k
            WHERE k.chat_key = c.chat_key AND k.user_key = u.user_key LIMIT 1
        ) m ON true
        LEFT JOIN LATERAL (
            SELECT k.sequence, k.created_at, k.message_id, k.content_type, k.content
            FROM heartline.messages k
            WHERE k.chat_key = c.chat_key AND k.sender_key = u.user_key
                AND k.client_message_id = n.client_message_id LIMIT 1
        ) s ON true
    ), fresh AS MATERIALIZED (
        SELECT k.*, k.head_sequence + k.number AS sequence FROM known k
        WHERE k.stored_sequence IS NULL AND k.is_member AND k.chat_outcome = 0
    ), messages_stored AS (
        INSERT INTO heartline.messages (chat_key, sequence, sender_key, created_at, message_id,
            client_message_id, content_type, content)
        SELECT chat_key, sequence, user_key, created_at, message_id, client_message_id,
            content_type, content
        FROM fresh
    ), heads_moved AS (
        UPDATE heartline.chats c SET head_sequence = f.sequence, newest_at = f.created_at,
            oldest_at = coalesce(c.oldest_at, f.created_at)
        FROM (
            SELECT chat_key, max(sequence) AS sequence, max(created_at) AS created_at
            FROM fresh GROUP BY chat_key
        ) f WHERE c.chat_key = f.chat_key
    ), chats_marked AS (
        INSERT INTO heartline.unpublished_chats (chat_key, since)
        SELECT chat_key, created_at FROM fresh
        WHERE number = 1 AND head_sequence <= published_sequence
        ON CONFLICT (chat_key) DO NOTHING
    ), speakers_noted AS (
        INSERT INTO heartline.speakers (user_key, chat_key)
        SELECT user_key, chat_key FROM fresh WHERE NOT has_spoken
        ON CONFLICT (user_key, chat_key) DO NOTHING
    )
    SELECT k.place,
        (CASE
            WHEN k.stored_sequence IS NOT NULL THEN 1
            WHEN k.is_member IS NULL THEN 2
            ELSE k.chat_outcome
        END)::smallint,
        coalesce(k.stored_sequence, k.head_sequence + k.number),
        coalesce(k.stored_at, k.created_at),
        k.members_version,
        coalesce(k.stored_sequence <= k.published_sequence, false),
        k.stored_id, k.stored_type, k.stored_content
    FROM known k;
END
$$;

-- Records ranges of numbers that were announced, in any order and by any node: what follows a hole
-- is kept until somebody fills it. What is ahead of its chat's head, or of a chat that is gone, is
-- not recorded.
CREATE FUNCTION record_published(chat_ids uuid[], firsts bigint[], lasts bigint[])
RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM 1 FROM heartline.chats c WHERE c.chat_id = ANY (chat_ids)
        ORDER BY c.chat_id FOR NO KEY UPDATE;
    WITH given AS MATERIALIZED (
        SELECT c.chat_key, c.head_sequence, c.published_sequence, r.first,
            least(r.last, c.head_sequence) AS last, true AS is_new
        FROM unnest(chat_ids, firsts, lasts) AS r (chat_id, first, last)
        CROSS JOIN LATERAL (
            SELECT k.chat_key, k.head_sequence, k.published_sequence
            FROM heartline.chats k WHERE k.chat_id = r.chat_id LIMIT 1
        ) c
        WHERE r.first <= c.head_sequence AND r.last > c.published_sequence
    ), known AS (
        SELECT * FROM given
        UNION ALL
        SELECT g.chat_key, g.head_sequence, g.published_sequence, p.first, p.last, false
        FROM (SELECT DISTINCT chat_key, head_sequence, published_sequence FROM given) g
        JOIN heartline.published_ranges p ON p.chat_key = g.chat_key
    ), compared AS (
        SELECT *, first <= 1 + greatest(published_sequence, max(last) OVER (
                PARTITION BY chat_key ORDER BY first, last
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )) AS follows
        FROM known
    ), judged AS MATERIALIZED (
        SELECT *, bool_and(follows) OVER (PARTITION BY chat_key ORDER BY first, last) AS is_taken
        FROM compared
    ), taken AS MATERIALIZED (
        SELECT chat_key, head_sequence, greatest(published_sequence, max(last)) AS last
        FROM judged WHERE is_taken GROUP BY chat_key, head_sequence, published_sequence
    ), recorded AS (
        UPDATE heartline.chats c SET published_sequence = t.last
        FROM taken t WHERE c.chat_key = t.chat_key
    ), ranges_removed AS (
        DELETE FROM heartline.published_ranges p
        USING taken t WHERE p.chat_key = t.chat_key AND p.first <= t.last
    ), ranges_kept AS (
        INSERT INTO heartline.published_ranges AS p (chat_key, first, last)
        SELECT chat_key, first, max(last) FROM judged WHERE is_new AND NOT is_taken
        GROUP BY chat_key, first
        ON CONFLICT (chat_key, first) DO UPDATE SET last = excluded.last
            WHERE p.last < excluded.last
    ), marks_removed AS (
        DELETE FROM heartline.unpublished_chats u
        USING taken t WHERE u.chat_key = t.chat_key AND t.last >= t.head_sequence
    )
    -- Not with every record: a mark that is a little old costs nothing.
    UPDATE heartline.unpublished_chats u SET since = m.created_at
    FROM taken t CROSS JOIN LATERAL (
        SELECT k.created_at FROM heartline.messages k
        WHERE k.chat_key = t.chat_key AND k.sequence = t.last + 1 LIMIT 1
    ) m
    WHERE u.chat_key = t.chat_key AND t.last < t.head_sequence AND u.since < m.created_at - 1000;
END
$$;

-- Removes up to so many messages of one deleted chat and answers how many; NULL when there is no
-- such chat.
CREATE FUNCTION forget_deleted_chat(limit_messages bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    key bigint;
    removed bigint;
BEGIN
    SELECT d.chat_key INTO key FROM heartline.deleted_chats d
        ORDER BY d.chat_key LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM heartline.messages m WHERE m.chat_key = key AND m.sequence = ANY (ARRAY(
        SELECT k.sequence FROM heartline.messages k WHERE k.chat_key = key
        ORDER BY k.sequence LIMIT limit_messages
    ));
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed < limit_messages THEN
        DELETE FROM heartline.deleted_chats d WHERE d.chat_key = key;
    END IF;
    RETURN removed;
END
$$;

-- Looks at up to so many messages of one deleted person in one chat, removes their content and
-- answers of how many; NULL when there is nobody.
CREATE FUNCTION forget_content(limit_messages bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    erasure record;
    looked_at text[];
    erased bigint;
BEGIN
    SELECT e.* INTO erasure FROM heartline.erasures e
        ORDER BY e.user_key, e.chat_key LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    looked_at := ARRAY(
        SELECT m.client_message_id FROM heartline.messages m
        WHERE m.chat_key = erasure.chat_key AND m.sender_key = erasure.user_key
            AND m.client_message_id > erasure.done_client_message_id
        ORDER BY m.client_message_id LIMIT limit_messages
    );
    UPDATE heartline.messages m SET content = NULL
        WHERE m.chat_key = erasure.chat_key AND m.sender_key = erasure.user_key
            AND m.client_message_id = ANY (looked_at)
            AND m.sequence <= erasure.last_sequence AND m.content IS NOT NULL;
    GET DIAGNOSTICS erased = ROW_COUNT;
    IF cardinality(looked_at) < limit_messages THEN
        DELETE FROM heartline.erasures e
            WHERE e.user_key = erasure.user_key AND e.chat_key = erasure.chat_key;
    ELSE
        UPDATE heartline.erasures e
            SET done_client_message_id = looked_at[cardinality(looked_at)]
            WHERE e.user_key = erasure.user_key AND e.chat_key = erasure.chat_key;
    END IF;
    RETURN erased;
END
$$;

-- Removes up to so many messages of one chat that were stored before an instant, from the chat's
-- beginning on, and answers how many; NULL when no chat has such messages. What is gone cannot be
-- announced any more, so it counts as announced.
CREATE FUNCTION forget_before(before_ms bigint, limit_messages bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    key bigint;
    old bigint[];
BEGIN
    SELECT c.chat_key INTO key FROM heartline.chats c WHERE c.oldest_at < before_ms
        ORDER BY c.oldest_at LIMIT 1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    old := ARRAY(
        SELECT m.sequence FROM (
            SELECT k.sequence, k.created_at FROM heartline.messages k WHERE k.chat_key = key
            ORDER BY k.sequence LIMIT limit_messages
        ) m WHERE m.created_at < before_ms ORDER BY m.sequence
    );
    DELETE FROM heartline.messages m WHERE m.chat_key = key AND m.sequence = ANY (old);
    UPDATE heartline.chats c SET
        oldest_at = (
            SELECT k.created_at FROM heartline.messages k WHERE k.chat_key = key
            ORDER BY k.sequence LIMIT 1
        ),
        published_sequence = greatest(c.published_sequence, old[cardinality(old)])
        WHERE c.chat_key = key;
    DELETE FROM heartline.unpublished_chats u USING heartline.chats c
        WHERE u.chat_key = key AND c.chat_key = key AND c.published_sequence >= c.head_sequence;
    RETURN cardinality(old);
END
$$;

-- Makes somebody a user's contact, unless they are (0) or the user has as many as one may have
-- (2); else 1. The user's row is locked, so that two additions at once do not exceed the limit.
CREATE FUNCTION put_contact(owner_id text, contact_id text, limit_contacts bigint)
RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
    owner bigint;
    contact bigint;
BEGIN
    SELECT u.user_key INTO owner FROM heartline.users u WHERE u.user_id = owner_id
        FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        -- Somebody may name them at this moment: the update then waits for that, and locks too.
        INSERT INTO heartline.users AS u (user_id) VALUES (owner_id)
            ON CONFLICT (user_id) DO UPDATE SET display_name = u.display_name
            RETURNING u.user_key INTO owner;
    END IF;
    SELECT u.user_key INTO contact FROM heartline.users u WHERE u.user_id = contact_id;
    IF EXISTS (
        SELECT 1 FROM heartline.contacts c WHERE c.user_key = owner AND c.contact_key = contact
    ) THEN
        RETURN 0;
    END IF;
    IF (
        SELECT count(*) FROM (
            SELECT 1 FROM heartline.contacts c WHERE c.user_key = owner LIMIT limit_contacts
        ) counted
    ) >= limit_contacts THEN
        RETURN 2;
    END IF;
    IF contact IS NULL THEN
        INSERT INTO heartline.users (user_id) VALUES (contact_id)
            ON CONFLICT (user_id) DO NOTHING;
        SELECT u.user_key INTO contact FROM heartline.users u WHERE u.user_id = contact_id;
    END IF;
    INSERT INTO heartline.contacts (user_key, contact_key) VALUES (owner, contact);
    RETURN 1;
END
$$;
