# What the report's document as a whole needs.

# Everything that has a name by now keeps its meaning: chapters run in one environment, one after
# the other, and what assigns such a name again stops the build, where it would mislead those after
# it.
lock_names <- function(place = knitr::knit_global()) {
  for (name in ls(place)) lockBinding(name, place)
}
