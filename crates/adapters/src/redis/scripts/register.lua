-- Admits a connection, or not: replacement, the limit per user and whether the user comes online
-- are one decision.
--
-- KEYS, ARGV 1 to 7: see prelude.lua
-- ARGV[8]   user
-- ARGV[9]   node
-- ARGV[10]  connection
-- ARGV[11]  device
-- ARGV[12]  kind: chat or party
-- ARGV[13]  age of the socket in microseconds
-- ARGV[14]  1 if the connection held a lease before and lost it
-- ARGV[15]  1 if a new connection replaces all older ones of its kind
-- ARGV[16]  connections that a user may have
-- ARGV[17]  length of the lease in ms
-- ARGV[18]  how long the key session:<user> lives without being extended, in seconds
-- ARGV[19]  this server's time in ms as the node knew it when it asked, or nothing
--
-- Returns now, epoch, rebuilding, `admitted` | `replaced` | `limit` | `late`, the transition or
-- nothing, the leases that were replaced, and those that had expired.

local user, node, id, device, kind = ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local is_again, is_single = ARGV[14] == '1', ARGV[15] == '1'

-- A call that waited while this server was stopped is too late: the age of its socket is out of
-- date, so an old socket would look young, and the caller has gone.
local LATE_MS = 1100
local asked_at = tonumber(ARGV[19])
if asked_at and now - asked_at > LATE_MS then
    return reply('late', '', {}, {})
end

local connected_at = now_us - tonumber(ARGV[13])
local connections = read_connections(user)

local own, contested, staying, over = nil, {}, {}, {}
for _, connection in ipairs(connections) do
    if connection.ends_at <= now then
        over[#over + 1] = connection
    elseif connection.id == id and connection.node == node then
        own = connection
    elseif connection.kind == kind and (is_single or connection.device == device) then
        contested[#contested + 1] = connection
    else
        staying[#staying + 1] = connection
    end
end

if own then
    -- The connection is registered already, so it replaces no other.
    connected_at = own.connected_at
    for _, connection in ipairs(contested) do
        staying[#staying + 1] = connection
    end
    contested = {}
end
for _, connection in ipairs(contested) do
    -- Of two sockets that opened in the same instant the larger id wins.
    local is_younger = connection.connected_at > connected_at
        or (connection.connected_at == connected_at and connection.id > id)
    if is_younger then
        return reply('replaced', '', {}, {})
    end
end
if not own and not is_again and #staying >= tonumber(ARGV[16]) then
    return reply('limit', '', {}, {})
end

local replaced, ended = {}, {}
for _, connection in ipairs(contested) do
    remove(user, connection)
    replaced[#replaced + 1] = connection.member
end
for _, connection in ipairs(over) do
    remove(user, connection)
    ended[#ended + 1] = connection.member
end

local member = user .. '/' .. node .. '/' .. id
local ends_at = now + tonumber(ARGV[17])
redis.call('ZADD', leases, whole(ends_at), member)
local user_connections, connection = key('user_connections', user), key('connection', id)
local fields = table.concat({ kind, node, whole(connected_at), device }, '/')
redis.call('HSET', user_connections, id, fields)
redis.call('EXPIRE', user_connections, index_ttl)
redis.call('HSET', connection, 'user', user, 'device', device, 'kind', kind, 'node', node,
    'connected_at', whole(connected_at))
redis.call('EXPIRE', connection, index_ttl)
staying[#staying + 1] = { kind = kind, node = node }
write_servers(user, staying)
if is_single and kind == 'chat' then
    local session = cjson.encode({ connection_id = id, node_id = node, device_id = device })
    redis.call('SET', key('session', user), session, 'EX', ARGV[18])
end
local transition = decide(read_presence(user), true)
return reply('admitted', transition or '', replaced, ended)
