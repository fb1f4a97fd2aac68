# Sentences about results. A chapter's text describes the recorded reference campaign; each such
# sentence states its assertion, which is checked against the campaign at hand.
# CONTRIBUTING.md explains how to write one.

# Return `text` if every part of the assertion holds. If one does not, the sentence is marked as not
# so in this campaign, or stops the build if the campaign's verdicts are recorded. If a number is
# missing, return "", and list the sentence.
#
# R code in braces in the text is replaced by its value. An assertion on no values at all counts as
# missing. A column or value that no campaign has is an error.
say <- function(assertion, text) {
  asked <- substitute(assertion)
  place <- parent.frame()
  tryCatch(
    checked_text(asked, text, place),
    losslab_undeclared = function(error) {
      stop_at_sentence(c(text, strings_in(asked)), conditionMessage(error))
    }
  )
}

checked_text <- function(asked, text, place) {
  holds <- evaluate_assertion(asked, place)
  if (is.na(holds)) {
    require_declared_parts(asked, place)
    note_unmeasured(text)
    return("")
  }
  if (holds) {
    return(filled(text, place))
  }
  needs <- one_line(deparse(asked))
  values <- compared_values(asked, place)
  if (is_recorded()) {
    words <- c(text, strings_in(asked))
    return(stop_at_sentence(words, paste0("needs `", needs, "`, found ", values)))
  }
  mark_untrue(text, needs, values, place)
}

# Return the verdict of a claim, "STUDY/CLAIM", or NA if it is not measured. A claim that does not
# exist is an error.
verdict <- function(claims, name) {
  row <- claims[paste0(claims$study, "/", claims$claim) == name, ]
  if (nrow(row) != 1) {
    stop(
      locate_text(name), "verdict() must name a claim of a study of this campaign, found ", name
    )
  }
  if (row$verdict == "not measured") NA_character_ else row$verdict
}

# Tell whether the report's sentences must hold: the verdicts of its campaign are recorded.
is_recorded <- function() report$recorded

# Sentences that do not hold in this campaign.
untrue <- new.env()
untrue$rows <- NULL

# Mark a sentence that does not hold, and note what it needs for the appendix's table.
mark_untrue <- function(text, needs, found, place) {
  if (document_part$omitted) {
    return("")
  }
  words <- tryCatch(filled(text, place), error = function(error) without_code(text))
  untrue$rows <- dplyr::bind_rows(untrue$rows, tibble::tibble(
    No. = NROW(untrue$rows) + 1L, Sentence = without_references(words),
    Needs = paste0("`", gsub("[`|]", "'", needs), "`"), Found = escape_markdown(found)
  ))
  paste0(
    "[Not shown in this campaign (@tbl-untrue, no. ", nrow(untrue$rows), "):]{.untrue} \"", words,
    "\""
  )
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
  if (document_part$omitted) {
    return(invisible())
  }
  words <- without_references(without_code(one_line(text)))
  unmeasured$sentences <- union(unmeasured$sentences, paste0(locate_text(text), words))
}

# Replace the code in braces, whose values are missing.
without_code <- function(text) gsub("\\{[^{}]*\\}", "...", text)

# Replace references by the names that they refer to, because those may not be printed.
without_references <- function(text) gsub("@((fig|tbl|sec)-)", "\\1", text)

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
stop_at_sentence <- function(words, problem) {
  message <- paste0(locate_text(words), "the sentence \"", words[1], "\" ", problem)
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

# Find the chapter and line of a text, as "studies/loss/chapter.qmd, line 12: "; "" if no chapter
# here has it.
locate_text <- function(words, chapters = Sys.glob(c("*.qmd", "studies/*/*.qmd"))) {
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
