-- Ends the lease of a connection. If it was the user's last, they stay online for a while, or go
-- offline at once. Ending one that is not held changes nothing.
--
-- KEYS, ARGV 1 to 7: see prelude.lua
-- ARGV[8]   user
-- ARGV[9]   node
-- ARGV[10]  connection
-- ARGV[11]  how long the user stays online after the last connection, in ms
--
-- Returns now, epoch, rebuilding, the transition or nothing, and the leases that had run out.

local user, node, id, keep_ms = ARGV[8], ARGV[9], ARGV[10], tonumber(ARGV[11])
local own, live, over = nil, {}, {}
for _, connection in ipairs(read_connections(user)) do
    if connection.id == id and connection.node == node then
        own = connection
    elseif connection.ends_at > now then
        live[#live + 1] = connection
    else
        over[#over + 1] = connection
    end
end
if own then
    remove(user, own)
elseif redis.call('ZREM', leases, user .. '/' .. node .. '/' .. id) == 0 then
    return reply('', {})
end
-- Renewing an expired lease later would make it live without a route, so it is removed here, and
-- its node registers the connection again.
local ended = {}
for _, connection in ipairs(over) do
    remove(user, connection)
    ended[#ended + 1] = connection.member
end
write_servers(user, live)

local session = redis.call('GET', key('session', user))
if session and string.find(session, '"' .. id .. '"', 1, true) then
    redis.call('DEL', key('session', user))
end

if #live > 0 then
    return reply('', ended)
end
local presence = read_presence(user)
if keep_ms == 0 then
    return reply(decide(presence, false, now) or '', ended)
end
keep_online(presence, now + keep_ms, now)
return reply('', ended)
