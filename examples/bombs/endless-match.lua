-- A pattern that is tried in more ways than there are atoms in the world, all inside one function written in C: no
-- allocation, no Lua instruction, nothing that a hook could see.
return string.find(string.rep('a', 60), string.rep('a-', 30) .. 'b')
