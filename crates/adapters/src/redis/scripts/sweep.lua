-- Claims leases that have expired, removes them from the indexes, and decides who goes offline.
-- Any node may run it at any time: each lease is claimed once.
--
-- KEYS, ARGV 1 to 7: see prelude.lua
-- ARGV[8]   leases to claim at most
-- ARGV[9]   length of a lease in ms: it was renewed that long before its end
-- ARGV[10]  how long a user stays online after the last lease ran out, in ms
-- ARGV[11]  nothing is claimed if the shard was swept less than so many ms ago
--
-- Returns now, epoch, rebuilding, 1 if there may be more, the claimed leases, the transitions.

local limit, lease_ms, linger_ms = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
if now - swept_at < tonumber(ARGV[11]) then
    return reply(0, {}, {})
end
redis.call('HSET', epoch, 'swept_at', whole(now))
if is_rebuilding or limit == 0 then
    return reply(0, {}, {})
end

local ended = redis.call('ZRANGE', leases, '-inf', whole(now), 'BYSCORE', 'LIMIT', 0, limit,
    'WITHSCORES')
local members, claimed, users, order = {}, {}, {}, {}
for index = 1, #ended, 2 do
    local member, ended_at = ended[index], tonumber(ended[index + 1])
    local name, node, id = string.match(member, '^(.-)/(.-)/(.*)$')
    members[#members + 1] = member
    local user = users[name]
    if not user then
        user = { name = name, claimed = {}, is_kept = true, seen = 0, kept_until = 0 }
        users[name] = user
        order[#order + 1] = user
    end
    if node == '' then
        -- The time for which the user was kept online is over.
        user.is_kept = false
    else
        claimed[#claimed + 1] = member
        user.claimed[id] = true
        user.seen = math.max(user.seen, ended_at - lease_ms)
        user.kept_until = math.max(user.kept_until, ended_at + linger_ms)
        redis.call('DEL', key('connection', id))
    end
end
if #members > 0 then
    redis.call('ZREM', leases, unpack(members))
end

local transitions = {}
for _, user in ipairs(order) do
    local others = {}
    for _, connection in ipairs(read_connections(user.name)) do
        if user.claimed[connection.id] then
            redis.call('HDEL', key('user_connections', user.name), connection.id)
        elseif connection.ends_at == 0 then
            remove(user.name, connection)
        else
            others[#others + 1] = connection
        end
    end
    -- The others are live, or have run out as well and are claimed next, unless they are renewed
    -- before, and then they need their route.
    write_servers(user.name, others)
    if #others == 0 then
        local presence = read_presence(user.name)
        local seen = math.max(user.seen, presence.left_at or 0)
        local is_kept = user.is_kept and presence.left_at
            and redis.call('ZSCORE', leases, user.name .. '//')
        if user.kept_until > now then
            keep_online(presence, user.kept_until, seen)
        elseif not is_kept then
            transitions[#transitions + 1] = decide(presence, false, seen)
        end
    end
end
return reply(#ended == limit * 2 and 1 or 0, claimed, transitions)
