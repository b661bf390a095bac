-- Removes a session that is at a revision, with its log.
--
-- KEYS[1]  party:{<session>}:state   HASH
-- KEYS[2]  party:{<session>}:events  LIST
-- KEYS[3]  party:active              ZSET  not given on a Cluster, where it is in another slot
-- ARGV[1]  the revision: <incarnation>/<version>
-- ARGV[2]  the session's id
--
-- Returns 1 if it was there, else 0.

if redis.call('HGET', KEYS[1], 'revision') ~= ARGV[1] then
    return 0
end
redis.call('DEL', KEYS[1], KEYS[2])
if KEYS[3] then
    redis.call('ZREM', KEYS[3], ARGV[2])
end
return 1
