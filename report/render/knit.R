# Knit INPUT to OUTPUT like Quarto: labelled figures, tables with captions, and no output on errors.
files <- commandArgs(trailingOnly = TRUE)

option <- function(options, name) {
  value <- options[[gsub("-", ".", name)]]
  if (is.null(value)) options[[name]] else value
}

figure <- function(x, options) {
  alt <- option(options, "fig-alt")
  sprintf(
    "\n![%s](%s){#%s width=100%%%s}\n", option(options, "fig-cap"), x, options$label,
    if (is.null(alt)) "" else paste0(' alt="', alt, '"')
  )
}

# Put a captioned table into a div with its label.
chunk <- function(x, options) {
  caption <- option(options, "tbl-cap")
  if (is.null(caption)) {
    return(x)
  }
  sprintf("\n::: {#%s .table-block}\n%s\n\n: %s\n:::\n", options$label, x, caption)
}

knitr::opts_knit$set(progress = FALSE, verbose = FALSE)
knitr::opts_chunk$set(
  echo = FALSE, error = FALSE, warning = FALSE, message = FALSE, results = "asis"
)
knitr::render_markdown()
knitr::knit_hooks$set(plot = figure, chunk = chunk)
# Print an error as one line with its place and message.
withCallingHandlers(
  knitr::knit(files[1], files[2], quiet = TRUE, envir = globalenv()),
  error = function(error) {
    words <- gsub("[[:space:]]+", " ", paste(conditionMessage(error), collapse = " "))
    # The message of a false sentence already has its place. Code in a line has no label.
    if (!inherits(error, "losslab_false_sentence")) {
      words <- paste0("in or after chunk ", knitr::opts_current$get("label"), ": ", words)
    }
    message(words)
    quit(save = "no", status = 1)
  }
)
