# Settings of the whole document.

# Lock all names defined so far. Chapters run one after another in one environment. An assignment to
# a locked name stops the build, because later chapters would use the wrong value.
lock_names <- function(place = knitr::knit_global()) {
  for (name in ls(place)) lockBinding(name, place)
}

# Let the finished document have its details in the appendix, no part that the campaign does not
# need, no section without data, and no reference without a target.
finish_document <- function() {
  whole <- knitr::knit_hooks$get("document")
  knitr::knit_hooks$set(document = function(x) {
    whole(without_dangling(without_empty_sections(with_details_moved(without_omitted_parts(x)))))
  })
}

# Marks of parts of the document, each a line of its own.
part_marks <- c(kept = "<!-- part -->", omitted = "<!-- omitted part -->", "<!-- end of part -->")

# Whether the current part is omitted. Then nobody misses its sentences and exhibits without data.
document_part <- new.env()
document_part$omitted <- FALSE

# Begin lines that are printed only under a condition.
part_if <- function(condition) {
  document_part$omitted <- !condition
  part_marks[[if (condition) "kept" else "omitted"]]
}

end_of_part <- function() {
  document_part$omitted <- FALSE
  part_marks[[3]]
}

# Remove the omitted parts, and the marks of all parts.
without_omitted_parts <- function(document) {
  lines <- unlist(strsplit(paste(document, collapse = "\n"), "\n", fixed = TRUE))
  marks <- which(lines %in% part_marks)
  # A line is omitted if the last mark before it begins an omitted part.
  omitted <- c(FALSE, lines[marks] == part_marks[["omitted"]])
  lines[!omitted[findInterval(seq_along(lines), marks) + 1] & !lines %in% part_marks]
}

# Move the details of each chapter to the line `<!-- all details -->`.
with_details_moved <- function(document) {
  lines <- unlist(strsplit(paste(document, collapse = "\n"), "\n", fixed = TRUE))
  # A line is a detail if the last mark before it begins details.
  begins <- "<!-- details -->"
  marks <- which(lines %in% c(begins, "<!-- end of chapter -->"))
  is_detail <- c(FALSE, lines[marks] == begins)[findInterval(seq_along(lines), marks) + 1]
  place <- which(lines == "<!-- all details -->")
  if (length(place) == 0) {
    return(lines)
  }
  lines[place] <- paste(lines[is_detail], collapse = "\n")
  lines[!is_detail]
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
