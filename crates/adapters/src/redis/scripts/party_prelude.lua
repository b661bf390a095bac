-- Shared by party_commit and party_offer; prepended to each of them.

-- Arguments that one command takes: unpacking too many at once is more than Lua's stack holds.
local TOGETHER = 1000

-- Calls a command on a key with the arguments of this script from `first` to `last`, in pieces.
-- Each piece has an even number of arguments unless it is the last.
local function in_pieces(command, key, first, last)
    for index = first, last, TOGETHER do
        redis.call(command, key, unpack(ARGV, index, math.min(index + TOGETHER - 1, last)))
    end
end
