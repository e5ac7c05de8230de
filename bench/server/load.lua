-- SPDX-License-Identifier: MIT
-- What wrk sends: wrk -tN -cN -s load.lua ADDRESS -- SHARE PORT [KEY...]
--
-- Of a hundred requests SHARE are hostile, of four kinds in equal parts; the others are good. Each thread has one
-- connection, so that what is sent and what is answered belong together, and the latency of the good ones is known by
-- itself. Thread number n uses the key n, beginning again after the last. With a SHARE of "plain" all are good, and
-- looked at by wrk itself alone, which takes less time from the server. The last line printed is RESULT and JSON.
local ffi = require("ffi")
ffi.cdef [[
struct load_time { long seconds, nanoseconds; };
int clock_gettime(int clock, struct load_time *time);
struct load_address { unsigned short family, port; unsigned address; char zero[8]; };
int socket(int domain, int type, int protocol);
int connect(int fd, const struct load_address *address, unsigned length);
long send(int fd, const char *data, unsigned long length, int flags);
int close(int fd);
unsigned short htons(unsigned short value);
]]

local HOSTILE = {
    -- cartesian: until the deadline
    "SELECT count(*) FROM item AS a, item AS b, item AS c WHERE a.price + b.price < c.price",
    -- UNION keeps what was there, to find what is new: so it grows for ever
    "WITH RECURSIVE t(n, pad) AS (SELECT 1, hex(zeroblob(100)) UNION SELECT n + 1, hex(zeroblob(100)) FROM t) " ..
        "SELECT count(*) FROM t",
    "SELECT length(randomblob(100000000))",
    "hang up",
}
local KINDS = { "join", "grow", "blob", "hangup" }
local STUCK = 1e6 -- microseconds without an answer at the end
local STEP = 100 -- buckets of latencies are a hundredth wide

local clock = ffi.new("struct load_time")
local function now() -- microseconds
    ffi.C.clock_gettime(1, clock)
    return tonumber(clock.seconds) * 1e6 + tonumber(clock.nanoseconds) / 1e3
end

local threads = {}
function setup(thread)
    thread:set("number", #threads)
    threads[#threads + 1] = thread
end

function init(args)
    plain, share, port = args[1] == "plain", tonumber(args[1]) or 0, tonumber(args[2])
    local keys = #args - 2
    key = keys > 0 and args[3 + number % keys] or nil
    math.randomseed(number * 7919 + 17)
    counts = { good = 0, failed = 0 }
    buckets, answers = {}, {}
    pending, began = nil, 0
    if plain then response, prepared = nil, {} end
    checked = number > 0 -- wrk calls request() of the first thread once without sending anything
end

local function post(sql)
    local lines = { "POST /query HTTP/1.1", "Host: 127.0.0.1", "Accept: application/json", "Content-Length: " .. #sql }
    if key then lines[#lines + 1] = "Authorization: Bearer " .. key end
    return table.concat(lines, "\r\n") .. "\r\n\r\n" .. sql
end

local function good()
    local kind, n = math.random(3), math.random(20000)
    if kind == 1 then return "SELECT id, name, price FROM item WHERE id = " .. n end
    if kind == 2 then
        return "SELECT i.id, i.name, c.name FROM item AS i JOIN customer AS c ON c.id = i.customer " ..
            "WHERE i.customer = " .. n % 1000 + 1 .. " ORDER BY i.price DESC LIMIT 10"
    end
    return "SELECT count(*), sum(price), avg(price) FROM item WHERE id BETWEEN " .. n .. " AND " .. n + 200
end

-- A client that asks for the longest and is gone at once: on a connection of its own, as wrk closes none.
local function hang_up()
    local fd = ffi.C.socket(2, 1, 0)
    if fd < 0 then return end
    local address = ffi.new("struct load_address")
    address.family, address.port, address.address = 2, ffi.C.htons(port), 0x0100007f
    if ffi.C.connect(fd, address, 16) == 0 then
        local data = post(HOSTILE[1])
        ffi.C.send(fd, data, #data, 0x4000)
    end
    ffi.C.close(fd)
end

local function answered(kind, status)
    local name = kind .. " " .. status
    answers[name] = (answers[name] or 0) + 1
end

function request()
    if plain then
        local n = math.random(1000)
        prepared[n] = prepared[n] or post(good())
        return prepared[n]
    end
    if not checked then
        checked = true
        return post("SELECT 1")
    end
    if pending then -- the connection broke before the answer was all there
        answered(pending, "cut")
        if pending == "good" then counts.failed = counts.failed + 1 end
    end
    pending = "good"
    if math.random() * 100 < share then
        local kind = math.random(4)
        if kind < 4 then
            pending = KINDS[kind]
            began = now()
            return post(HOSTILE[kind])
        end
        hang_up()
        answered("hangup", "sent")
        if share >= 100 then
            pending = "blob"
            return post(HOSTILE[3])
        end
    end
    local data = post(good())
    began = now()
    return data
end

function response(status)
    local ended = now()
    if not pending then return end
    answered(pending, status)
    if pending == "good" then
        if status == 200 then
            counts.good = counts.good + 1
            local bucket = math.floor(math.log(math.max(ended - began, 1)) * STEP)
            buckets[bucket] = (buckets[bucket] or 0) + 1
        else
            counts.failed = counts.failed + 1
        end
    end
    pending = nil
end

-- wrk passes tables on from its threads, but no tables in them.
local function add(to, from)
    for name, value in pairs(from) do to[name] = (to[name] or 0) + value end
end

local function json(value)
    if type(value) ~= "table" then return tostring(value) end
    local parts = {}
    for name, inner in pairs(value) do parts[#parts + 1] = '"' .. name .. '":' .. json(inner) end
    return "{" .. table.concat(parts, ",") .. "}"
end

function done(summary)
    local all, histogram, given = {}, {}, {}
    local stuck, ended = 0, now()
    for _, thread in ipairs(threads) do
        add(all, thread:get("counts"))
        add(histogram, thread:get("buckets"))
        add(given, thread:get("answers"))
        if thread:get("pending") and ended - thread:get("began") > STUCK then stuck = stuck + 1 end
    end
    local sum, ordered = 0, {}
    for bucket, count in pairs(histogram) do
        sum = sum + count
        ordered[#ordered + 1] = bucket
    end
    table.sort(ordered)
    local function quantile(part)
        local seen = 0
        for _, bucket in ipairs(ordered) do
            seen = seen + histogram[bucket]
            if seen >= sum * part then return math.exp((bucket + 0.5) / STEP) end
        end
        return 0
    end
    if threads[1]:get("plain") then
        all.failed = summary.errors.status + summary.errors.read + summary.errors.write + summary.errors.connect
        all.good = summary.requests - summary.errors.status
    end
    print("RESULT " .. json({
        seconds = summary.duration / 1e6, good = all.good, failed = all.failed, stuck = stuck,
        p50 = quantile(0.5), p99 = quantile(0.99), max = quantile(1), answers = given,
        errors = { connect = summary.errors.connect, read = summary.errors.read, write = summary.errors.write,
            timeout = summary.errors.timeout },
    }))
end
