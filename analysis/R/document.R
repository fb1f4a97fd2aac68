# Settings of the whole document.

# Lock all names defined so far. Chapters run one after another in one environment. An assignment to
# a locked name stops the build, because later chapters would use the wrong value.
lock_names <- function(place = knitr::knit_global()) {
  for (name in ls(place)) lockBinding(name, place)
}

# Set the alternative text of each picture from the file beside it. Both renderers read it from the
# chunk's options.
describe_pictures <- function() {
  knitr::opts_hooks$set(fig.cap = function(options) {
    words <- picture_words(options$code)
    if (!is.null(words)) options$fig.alt <- words
    options
  })
}

# Read the alternative text of the picture that a chunk shows, if there is any.
picture_words <- function(code) {
  path <- sub("[.]svg$", ".txt", picture_in(code))
  if (length(path) == 1 && file.exists(path)) {
    gsub("\"", "'", paste(readLines(path), collapse = " "))
  }
}

# Find the picture that a chunk shows.
picture_in <- function(code) regmatches(code, regexpr('[^"]+[.]svg', code))
