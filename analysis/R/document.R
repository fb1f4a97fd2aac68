# What the report's document as a whole needs.

# Everything that has a name by now keeps its meaning: chapters run in one environment, one after
# the other, and what assigns such a name again stops the build, where it would mislead those after
# it.
lock_names <- function(place = knitr::knit_global()) {
  for (name in ls(place)) lockBinding(name, place)
}

# What is seen on a picture stands in a file beside it: the words for those who do not see it. Both
# renderers take them from the chunk's options.
describe_pictures <- function() {
  knitr::opts_hooks$set(fig.cap = function(options) {
    words <- picture_words(options$code)
    if (!is.null(words)) options$fig.alt <- words
    options
  })
}

# The words beside the picture that a chunk's code shows, if there are any.
picture_words <- function(code) {
  path <- sub("[.]svg$", ".txt", picture_in(code))
  if (length(path) == 1 && file.exists(path)) {
    gsub("\"", "'", paste(readLines(path), collapse = " "))
  }
}

# The picture that a chunk's code shows.
picture_in <- function(code) regmatches(code, regexpr('[^"]+[.]svg', code))
