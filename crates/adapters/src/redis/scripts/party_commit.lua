-- Commits a change of a session if the session is at the expected revision, and publishes it to
-- every node that watches. A late call finds another revision and changes nothing.
--
-- KEYS[1]   party:{<session>}:state   HASH  the fields, and revision: <incarnation>/<version>
-- KEYS[2]   party:{<session>}:events  LIST  an entry for each of the last commits, the newest last
-- KEYS[3]   party:active              ZSET  session -> last activity in microseconds. Not given
--                                     on a Cluster, where it is in another slot
-- ARGV[1]   the revision that is expected; empty if the session must not be there
-- ARGV[2]   the revision afterwards
-- ARGV[3]   the entry
-- ARGV[4]   entries that are kept, this one included
-- ARGV[5]   1 if the revision is the successor of the expected one; else the log begins anew
-- ARGV[6]   how long the state is kept without use, in ms
-- ARGV[7]   the same for the entries
-- ARGV[8]   PUBLISH or SPUBLISH
-- ARGV[9]   party:{<session>}         the channel
-- ARGV[10]  bytes of an entry that are published at most: a larger one is left out of the message
-- ARGV[11]  the session's id
-- ARGV[12]  1 if the session has members afterwards
-- ARGV[13]  arguments that follow and are names and values of fields to write, the revision among
--           them; the rest are names of fields to remove
--
-- Returns 1; or 0 and the present revision, which is empty if there is no session.
-- The message is `<revision>:<entry>`, or `<revision>` alone without the entry.

local state, events, active = KEYS[1], KEYS[2], KEYS[3]
local revision, entry = ARGV[2], ARGV[3]
local fields_first, fields_last = 14, 13 + tonumber(ARGV[13])

local present = redis.call('HGET', state, 'revision') or ''
if present ~= ARGV[1] then
    return { 0, present }
end
if present == '' and redis.call('EXISTS', state) == 1 then
    -- Only an operator can have written fields without a revision.
    redis.call('DEL', state)
end
-- A full server rejects the first write, so that it rejects the whole commit.
in_pieces('HSET', state, fields_first, fields_last)
in_pieces('HDEL', state, fields_last + 1, #ARGV)
if ARGV[5] ~= '1' then
    redis.call('DEL', events)
end
redis.call('RPUSH', events, entry)
redis.call('LTRIM', events, '-' .. ARGV[4], -1)
redis.call('PEXPIRE', state, ARGV[6])
redis.call('PEXPIRE', events, ARGV[7])

if active and ARGV[12] == '1' then
    local time = redis.call('TIME')
    redis.call('ZADD', active, string.format('%.0f', time[1] * 1000000 + time[2]), ARGV[11])
elseif active then
    redis.call('ZREM', active, ARGV[11])
end

local message = revision
if #entry <= tonumber(ARGV[10]) then
    message = revision .. ':' .. entry
end
redis.call(ARGV[8], ARGV[9], message)
return { 1 }
