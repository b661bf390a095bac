-- Shared by register, unregister and sweep; prepended to each of them.
--
-- All keys of one call are in one slot: on a Cluster each carries the user's shard as a hash tag.
-- Those of other connections and users are made here from the names that the lease set and the
-- indexes hold, so they are not in KEYS.
--
-- KEYS[1]  presence:leases:<shard>   ZSET  <user>/<node>/<connection> -> end of the lease, ms.
--                                    <user>// keeps a user online who has left, until then
-- KEYS[2]  presence:epoch:<shard>    HASH  id, rebuild_until, swept_at
-- ARGV[1]  the length of a rebuild in ms: one lease
-- ARGV[2]  PUBLISH or SPUBLISH
-- ARGV[3]  presence:<shard>          the channel of transitions
-- ARGV[4]  the node that calls, which every transition names as the one that decided it
-- ARGV[5]  the prefix of every key
-- ARGV[6]  the hash tag that follows the name of a key, or nothing
-- ARGV[7]  how long index keys live without being extended, in seconds
--
-- Time is this server's own. A connection is `live` while the end of its lease is ahead.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_us = time[1] * 1000000 + time[2]

local leases, epoch = KEYS[1], KEYS[2]
local rebuild_ms, publish, channel, deciding_node = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local key_prefix, key_tag, index_ttl = ARGV[5], ARGV[6], ARGV[7]

-- After this time without a sweep the leases cannot be trusted.
local SWEEP_SILENCE_MS = 5000

local function key(name, id)
    return key_prefix .. name .. ':' .. key_tag .. id
end

local function whole(number)
    return string.format('%.0f', number)
end

-- After a failover to a server whose clock is behind, leases would last too long.
local function shorten_leases()
    local limit = now + rebuild_ms
    while true do
        local above = '(' .. whole(limit)
        local beyond = redis.call('ZRANGE', leases, above, '+inf', 'BYSCORE', 'LIMIT', 0, 500)
        if #beyond == 0 then
            return
        end
        for _, member in ipairs(beyond) do
            redis.call('ZADD', leases, 'XX', whole(limit), member)
        end
    end
end

-- The shard's epoch: its id, whether leases are being made again, and the last sweep. A new
-- epoch begins when it is missing (Redis was wiped) or was not swept for a while (Redis was down).
local function read_epoch()
    local stored = redis.call('HMGET', epoch, 'id', 'rebuild_until', 'swept_at')
    local id, rebuild_until = stored[1], tonumber(stored[2] or 0)
    local swept_at = tonumber(stored[3] or 0)
    if id and math.abs(now - swept_at) <= SWEEP_SILENCE_MS then
        return id, now < rebuild_until, swept_at
    end
    if swept_at > now then
        shorten_leases()
    end
    id = whole(now_us)
    redis.call('HSET', epoch, 'id', id, 'rebuild_until', whole(now + rebuild_ms),
        'swept_at', whole(now))
    return id, true, now
end

local epoch_id, is_rebuilding, swept_at = read_epoch()

-- The connections of a user as the index has them, each with the end of its lease, if it has one.
local function read_connections(user)
    local stored = redis.call('HGETALL', key('user_connections', user))
    local connections, members = {}, {}
    for index = 1, #stored, 2 do
        local fields = '^(.-)/(.-)/(.-)/(.*)$'
        local kind, node, connected_at, device = string.match(stored[index + 1], fields)
        if kind then
            local member = user .. '/' .. node .. '/' .. stored[index]
            members[#members + 1] = member
            connected_at = tonumber(connected_at)
            -- A time of a server whose clock was ahead would make every new socket look older.
            if connected_at > now_us then
                connected_at = 0
            end
            connections[#connections + 1] = {
                id = stored[index], member = member, kind = kind, node = node,
                connected_at = connected_at, device = device,
            }
        else
            -- Only an operator can have written this.
            redis.call('HDEL', key('user_connections', user), stored[index])
        end
    end
    if #members > 0 then
        local ends = redis.call('ZMSCORE', leases, unpack(members))
        for index, connection in ipairs(connections) do
            connection.ends_at = tonumber(ends[index] or 0)
        end
    end
    return connections
end

-- Removes a connection.
local function remove(user, connection)
    redis.call('ZREM', leases, connection.member)
    redis.call('HDEL', key('user_connections', user), connection.id)
    redis.call('DEL', key('connection', connection.id))
end

-- Writes the routing table again: how many of these chat connections are on each node.
local function write_servers(user, connections)
    local user_servers = key('user_servers', user)
    local counts, fields = {}, {}
    for _, connection in ipairs(connections) do
        if connection.kind == 'chat' then
            counts[connection.node] = (counts[connection.node] or 0) + 1
        end
    end
    for node, count in pairs(counts) do
        fields[#fields + 1] = node
        fields[#fields + 1] = count
    end
    redis.call('DEL', user_servers)
    if #fields > 0 then
        redis.call('HSET', user_servers, unpack(fields))
        redis.call('EXPIRE', user_servers, index_ttl)
    end
end

-- Whether a user is online, and since when they are only kept so, if they are.
local function read_presence(user)
    local user_presence = key('user_presence', user)
    local stored = redis.call('HMGET', user_presence, 'status', 'version', 'left_at')
    return {
        user = user, key = user_presence, is_online = stored[1] == 'online',
        version = tonumber(stored[2] or 0), left_at = tonumber(stored[3] or nil),
    }
end

-- Decides whether a user is online. A transition is published here, in the same step as what
-- causes it, and returned; none is published during a rebuild, when it may be false.
local function decide(presence, is_online, last_seen)
    if presence.left_at then
        redis.call('ZREM', leases, presence.user .. '//')
        redis.call('HDEL', presence.key, 'left_at')
    end
    if presence.is_online == is_online then
        redis.call('EXPIRE', presence.key, index_ttl)
        return nil
    end
    local status, version = 'online', whole(math.max(presence.version + 1, now))
    local fields = { 'version', version, 'updated_at', whole(now) }
    if not is_online then
        status, last_seen = 'offline', whole(last_seen)
        fields[#fields + 1] = 'last_seen'
        fields[#fields + 1] = last_seen
    end
    redis.call('HSET', presence.key, 'status', status, unpack(fields))
    redis.call('EXPIRE', presence.key, index_ttl)
    if is_rebuilding then
        return nil
    end
    local transition = { status, version, last_seen or '', deciding_node, presence.user }
    transition = table.concat(transition, '/')
    redis.call(publish, channel, transition)
    return transition
end

-- Keeps a user online who has no connection any more, and remembers when they were last seen.
local function keep_online(presence, kept_until, seen)
    if presence.is_online then
        redis.call('ZADD', leases, 'GT', whole(kept_until), presence.user .. '//')
        redis.call('HSET', presence.key, 'left_at', whole(seen))
        local kept_seconds = math.ceil((kept_until - now) / 1000)
        redis.call('EXPIRE', presence.key, tonumber(index_ttl) + kept_seconds)
    end
end

-- The beginning of every reply.
local function reply(...)
    return { whole(now), epoch_id, is_rebuilding and 1 or 0, ... }
end
