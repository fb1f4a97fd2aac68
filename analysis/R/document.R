# What the report's document as a whole needs.

# Everything that has a name by now keeps its meaning: chapters run in one environment, one after
# the other, and what assigns such a name again stops the build instead of misleading those after it.
lock_names <- function(place = globalenv()) {
  for (name in ls(place)) lockBinding(name, place)
}
