-- A table that grows for ever.
local all = {}
for i = 1, math.huge do
    all[#all + 1] = { i }
end
