# What a study's own code works on.

# How each of the tables that a rule names is read.
table_readers <- function() {
  list(
    algorithms = read_algorithms, published = read_published, cells = read_cells,
    summary = read_measured, ratios = read_measured, replicates = read_replicates,
    intervals = read_measured, flows = read_measured, queue = read_measured,
    suite = yaml::read_yaml
  )
}

# A study's tables by their names, each read when it is first looked at.
#
# `input` has their paths: of all, or of those that the code may look at.
study_data <- function(input) {
  data <- new.env(parent = emptyenv())
  Map(
    function(name, read) {
      delayedAssign(name, read(table_path(input, name)), assign.env = data)
    },
    names(table_readers()), table_readers()
  )
  data
}

table_path <- function(input, name) {
  path <- unlist(input[[name]])
  if (length(path) != 1) {
    stop("the table ", name, " must be one that the study has, found ", length(path), " files")
  }
  path
}
