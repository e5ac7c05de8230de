-- A string that doubles: after forty rounds it would be a terabyte.
local s = "x"
while true do
    s = s .. s
end
