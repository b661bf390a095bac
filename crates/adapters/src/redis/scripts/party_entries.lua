-- The entries of a session's log that lead from a revision to the present one. Each commit adds
-- exactly one, so the last of them are as many as there were commits since.
--
-- KEYS[1]  party:{<session>}:state   HASH  revision: <incarnation>/<version>
-- KEYS[2]  party:{<session>}:events  LIST  the newest last
-- ARGV[1]  the incarnation that is known
-- ARGV[2]  the version that is known; if it is not given, every kept entry is returned
--
-- Returns the entries in order; nothing if some are not there any more, or never were.

local present = redis.call('HGET', KEYS[1], 'revision') or ''
local incarnation, version = string.match(present, '^(%d+)/(%d+)$')
if incarnation ~= ARGV[1] then
    return false
end
if not ARGV[2] then
    return redis.call('LRANGE', KEYS[2], 0, -1)
end
local distance = tonumber(version) - tonumber(ARGV[2])
if distance == 0 then
    return {}
end
if distance < 0 or redis.call('LLEN', KEYS[2]) < distance then
    return false
end
return redis.call('LRANGE', KEYS[2], string.format('-%.0f', distance), -1)
