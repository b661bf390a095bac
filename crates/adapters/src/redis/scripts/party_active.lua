-- Records activity of sessions, and lists those whose last activity is oldest. Sessions without
-- activity for long are removed. Time is this server's own.
--
-- KEYS[1]  party:active  ZSET  session -> last activity in microseconds
-- ARGV[1]  sessions that are listed at most
-- ARGV[2]  how long a session is listed without activity, in ms
-- ARGV[3]  and all that follow: sessions that are active now
--
-- Returns the sessions, the one with the oldest activity first.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for index = 3, #ARGV do
    redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[index])
end
local forgotten = string.format('(%.0f', now - tonumber(ARGV[2]) * 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', forgotten)
local limit = tonumber(ARGV[1])
if limit == 0 then
    return {}
end
return redis.call('ZRANGE', KEYS[1], 0, limit - 1)
