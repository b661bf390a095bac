-- Releases the lock of a session if its owner still holds it.
--
-- KEYS[1]  party:{<session>}:lock  STRING  the owner
-- ARGV[1]  the owner
--
-- Returns 1 if it was held, else 0.

if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
