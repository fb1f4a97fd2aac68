# Values that a chapter may ask for: the columns of its tables, and the values that its studies
# declare, whether this campaign measures their cells or not.

# Stop with an error that `say()` completes to a sentence: "the sentence ... names ...".
stop_undeclared <- function(...) {
  stop(structure(
    class = c("losslab_undeclared", "error", "condition"), list(message = paste0(...), call = NULL)
  ))
}

# Stop if a table does not have a column. The table of a study that is not in this campaign has no
# rows, and not all of its columns.
require_column <- function(data, column) {
  if (nrow(data) > 0 && !column %in% names(data)) {
    stop_undeclared("names the column ", column, " of a table that has ", toString(names(data)))
  }
}

# Stop if a column cannot have a value in any campaign: neither the table nor a study has it.
# Columns without declared values, such as those that a study's own R code adds, may have any.
require_declared <- function(column, values, data) {
  if (is.logical(values)) {
    return(invisible())
  }
  allowed <- report$declared[[column]]
  for (value in stats::na.omit(values)) {
    known <- value %in% data[[column]] || length(allowed) == 0 || any(same_value(allowed, value))
    if (!known) {
      stop_undeclared(
        "names the ", column, " ", value, ", which no study declares (they declare ",
        toString(allowed), ")"
      )
    }
  }
}

same_value <- function(allowed, value) {
  if (is.numeric(value)) {
    return(suppressWarnings(as.numeric(allowed)) %in% value)
  }
  allowed == value
}

# Check the keys of a selection of rows that found none: `column == value` or `column %in% values`.
#
# `conditions` are quosures, as of `dplyr::filter()`.
require_declared_keys <- function(conditions, data) {
  for (condition in conditions) {
    asked <- unclass(condition)[[2]]
    if (is_key(asked) && is.name(asked[[2]]) && as.character(asked[[2]]) %in% names(data)) {
      values <- eval(asked[[3]], data, environment(condition))
      require_declared(as.character(asked[[2]]), values, data)
    }
  }
}

# Check the keys in an assertion without a value: `data$column == value` and `data$column`.
require_declared_parts <- function(asked, place) {
  for (part in calls_in(asked)) {
    if (is_key(part) && is_column(part[[2]])) {
      data <- eval(part[[2]][[2]], place)
      if (is.data.frame(data)) {
        column <- as.character(part[[2]][[3]])
        require_column(data, column)
        require_declared(column, eval(part[[3]], place), data)
      }
    }
  }
}

is_key <- function(asked) is.call(asked) && as.character(asked[[1]])[1] %in% c("==", "%in%")

is_column <- function(asked) is.call(asked) && identical(asked[[1]], as.name("$"))

# List an expression's calls, including those inside other calls.
calls_in <- function(asked) {
  if (!is.call(asked)) {
    return(list())
  }
  c(list(asked), unlist(lapply(as.list(asked), calls_in), recursive = FALSE))
}

# Name under which metrics are declared: those of labels of background flows have one for all
# labels.
metric_key <- function(metric) {
  labelled <- grep("LABEL", names(metric_units), value = TRUE)
  for (form in labelled) {
    metric <- sub(paste0("^", sub("LABEL", "[a-z][a-z0-9_-]*", form), "$"), form, metric)
  }
  metric
}
