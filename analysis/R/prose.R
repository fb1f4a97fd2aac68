# Sentences that depend on results: a chapter's sentence appears only if the tables support it.
# CONTRIBUTING.md explains how to write one.

# Return `text` if every part of the assertion holds, `otherwise` if one does not, and `if_missing`
# if a number is missing. Without `otherwise`, a false assertion stops the build.
#
# R code in braces in the texts is replaced by its value. An assertion on no values at all counts as
# missing. A column or value that no campaign has is an error; sentences whose numbers are missing
# are listed at the end.
say <- function(assertion, text, otherwise = NULL, if_missing = "") {
  asked <- substitute(assertion)
  place <- parent.frame()
  tryCatch(
    chosen_text(asked, text, otherwise, if_missing, place),
    losslab_undeclared = function(error) {
      report_false_sentence(c(text, strings_in(asked)), conditionMessage(error))
    }
  )
}

chosen_text <- function(asked, text, otherwise, if_missing, place) {
  holds <- evaluate_assertion(asked, place)
  if (is.na(holds)) {
    require_declared_parts(asked, place)
    note_unmeasured(text)
    return(filled(if_missing, place))
  }
  if (holds) {
    return(filled(text, place))
  }
  if (is.null(otherwise)) {
    return(report_false_sentence(
      c(text, strings_in(asked)),
      paste0("needs `", one_line(deparse(asked)), "`, found ", compared_values(asked, place))
    ))
  }
  filled(otherwise, place)
}

# Return the text for a claim's verdict. A verdict without a text or a missing claim stops the
# build.
say_verdict <- function(claims, study, claim, reproduced = NULL, not_reproduced = NULL,
                         inconclusive = NULL, not_comparable = NULL, if_missing = "") {
  row <- claims[claims$study == study & claims$claim == claim, ]
  if (nrow(row) != 1) {
    stop("say_verdict() needs one claim ", study, ", ", claim, ", found ", nrow(row))
  }
  if (row$verdict == "not measured") {
    note_unmeasured(c(reproduced, not_reproduced, inconclusive, not_comparable)[1])
    return(filled(if_missing, parent.frame()))
  }
  text <- list(
    reproduced = reproduced, "not reproduced" = not_reproduced,
    inconclusive = inconclusive, "not comparable" = not_comparable
  )[[row$verdict]]
  if (is.null(text)) {
    return(report_false_sentence(
      c(reproduced, not_reproduced, inconclusive, not_comparable),
      paste0(
        "needs a text for the verdict `", row$verdict, "`, found measured = ",
        short(row$measured, 6), ", ", row$tolerance
      )
    ))
  }
  filled(text, parent.frame())
}

# Evaluate an assertion to TRUE, FALSE, or NA if a number is missing. `all()` of no values would be
# TRUE.
evaluate_assertion <- function(asked, place) {
  if (is.call(asked)) {
    name <- as.character(asked[[1]])[1]
    if (name %in% c("(", "all") && length(asked) == 2) {
      return(evaluate_assertion(asked[[2]], place))
    }
    if (name %in% c("&&", "&")) {
      return(evaluate_assertion(asked[[2]], place) & evaluate_assertion(asked[[3]], place))
    }
  }
  value <- withCallingHandlers(eval(asked, place), warning = stop_if_unknown_column)
  if (!is.logical(value)) {
    stop(
      "an assertion must be true or false, found ", one_line(deparse(asked)), " = ",
      format_value(value)
    )
  }
  if (length(value) == 0) NA else all(value)
}

# Turn tibble's warning of a column that does not exist into an error: such a column has no values.
stop_if_unknown_column <- function(warning) {
  if (grepl("^Unknown or uninitialised column", conditionMessage(warning))) {
    stop_undeclared("names an unknown column: ", one_line(conditionMessage(warning)))
  }
}

# Sentences left out so far, because their numbers are not measured.
unmeasured <- new.env()
unmeasured$sentences <- character()

note_unmeasured <- function(text) {
  # Without the code in braces, whose values are missing.
  words <- gsub("\\{[^{}]*\\}", "...", one_line(text[1]))
  # A name instead of a reference: what it refers to may be left out, too.
  words <- gsub("@((fig|tbl|sec)-)", "\\1", words)
  unmeasured$sentences <- union(unmeasured$sentences, paste0(locate_text(text[1]), words))
}

# List the sentences that the report leaves out, or return "" if it has them all. Write them to a
# file, too, for the build's log.
unmeasured_text <- function(sentences = unmeasured$sentences, path = "unmeasured.txt") {
  writeLines(sentences, path)
  if (length(sentences) == 0) {
    return("")
  }
  paste(c(
    "## Sentences without numbers {#sec-unmeasured}", "",
    paste0(
      "This campaign does not measure the numbers of these sentences (", length(sentences),
      "), so the report leaves them out:"
    ),
    "", paste("-", escape_markdown(sentences))
  ), collapse = "\n")
}

# Format the sides of each comparison that are not literals, with their values.
compared_values <- function(asked, place) {
  leaves <- unique(compared_sides(asked))
  values <- vapply(leaves, function(leaf) {
    paste(one_line(deparse(leaf)), "=", format_value(eval(leaf, place)))
  }, "")
  paste(values, collapse = ", ")
}

compared_sides <- function(asked) {
  if (!is.call(asked)) {
    return(if (is.name(asked)) list(asked))
  }
  name <- as.character(asked[[1]])[1]
  sides <- as.list(asked)[-1]
  if (name %in% c("(", "all", "any", "!", "&&", "&", "||", "|")) {
    return(unlist(lapply(unname(sides), compared_sides), recursive = FALSE))
  }
  if (name %in% c("<", "<=", ">", ">=", "==", "!=", "%in%")) {
    return(Filter(is.language, unname(sides)))
  }
  list(asked)
}

# Format the first few values.
format_value <- function(value, max_values = 8) {
  if (is.data.frame(value) || is.list(value)) {
    return(class(value)[1])
  }
  words <- if (is.numeric(value)) formatC(value, digits = 5, format = "g") else as.character(value)
  if (length(words) == 0) {
    return("none")
  }
  more <- if (length(words) > max_values) ", ..." else ""
  paste0(toString(trimws(utils::head(words, max_values))), more)
}

# Replace the code in braces by its value.
filled <- function(text, place) {
  pieces <- regmatches(text, gregexpr("\\{[^{}]+\\}", text))[[1]]
  for (piece in pieces) {
    code <- substr(piece, 2, nchar(piece) - 1)
    value <- eval(parse(text = code, keep.source = FALSE), place)
    if (length(value) != 1 || is.na(value)) {
      stop("`", code, "` in a sentence must be one word or number, found ", format_value(value))
    }
    text <- sub(piece, as.character(value), text, fixed = TRUE)
  }
  text
}

# Stop the build with the sentence's place and its problem. In a draft (environment variable
# LOSSLAB_DRAFT), return this message in place of the sentence.
report_false_sentence <- function(words, problem) {
  message <- paste0(
    locate_text(words), "the sentence \"", words[1], "\" ", problem,
    "; correct it, or add a text for the other case"
  )
  if (Sys.getenv("LOSSLAB_DRAFT") != "") {
    return(paste0("**(", escape_markdown(message), ")**"))
  }
  stop(structure(
    class = c("losslab_false_sentence", "error", "condition"), list(message = message, call = NULL)
  ))
}

# List the strings in an expression.
strings_in <- function(call) {
  if (!is.call(call)) {
    return(if (is.character(call)) call)
  }
  unlist(lapply(as.list(call)[-1], strings_in))
}

# Find the chapter and line of a text, as "_loss.qmd, line 12: "; "" if no chapter here has it.
locate_text <- function(words, chapters = Sys.glob("*.qmd")) {
  # Search for the longest piece of each text without line breaks, quotes and backslashes.
  pieces <- vapply(strsplit(words, "[\n\"\\\\]"), function(parts) {
    if (length(parts) == 0) "" else parts[which.max(nchar(parts))]
  }, "")
  for (piece in pieces[nchar(pieces) > 3]) {
    for (chapter in chapters) {
      line <- grep(piece, readLines(chapter), fixed = TRUE)
      if (length(line) > 0) {
        return(paste0(chapter, ", line ", paste(line, collapse = " or "), ": "))
      }
    }
  }
  ""
}
