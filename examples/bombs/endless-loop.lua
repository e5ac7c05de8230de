-- A loop that does nothing and allocates nothing: only time can end it.
while true do
end
