-- Stores a copy of a session that a node offers, unless a copy that is as new is stored.
--
-- KEYS[1]  party:{<session>}:offer  HASH  the fields, and revision: <incarnation>/<version>
-- ARGV[1]  the copy's incarnation
-- ARGV[2]  the copy's version
-- ARGV[3]  how long it is kept, in ms
-- ARGV[4]  and all that follow: names and values of the fields
--
-- Returns 1 if it is stored, else 0.

local present = redis.call('HGET', KEYS[1], 'revision') or ''
local incarnation, version = string.match(present, '^(%d+)/(%d+)$')
if incarnation then
    incarnation, version = tonumber(incarnation), tonumber(version)
    local offered_incarnation, offered_version = tonumber(ARGV[1]), tonumber(ARGV[2])
    local is_newer = offered_incarnation > incarnation
        or (offered_incarnation == incarnation and offered_version > version)
    if not is_newer then
        return 0
    end
    redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], 'revision', ARGV[1] .. '/' .. ARGV[2])
in_pieces('HSET', KEYS[1], 4, #ARGV)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
