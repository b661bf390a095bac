-- Takes signs of life of sessions, and names those whose last sign is oldest. Sessions without a
-- sign for long are forgotten. Time is this server's own.
--
-- KEYS[1]  party:active  ZSET  session -> last sign of life in microseconds
-- ARGV[1]  sessions that are named at most
-- ARGV[2]  how long a session is listed without a sign, in ms
-- ARGV[3]  and all that follow: sessions that give a sign now
--
-- Answers the sessions, the one with the oldest sign first.

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
