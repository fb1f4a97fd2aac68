# Sentences that cannot lie: what a chapter says about numbers in words stands only as long as it is
# true of the tables. CONTRIBUTING.md says how to write one.

# `text` where every part of the assertion holds, `otherwise` where one does not, `without` where
# none can be judged for want of a number. Without an `otherwise` a false assertion stops the build.
#
# R code in braces in the texts is replaced by its value. Of no values at all nothing is true.
tell <- function(assertion, text, otherwise = NULL, without = "") {
  asked <- substitute(assertion)
  place <- parent.frame()
  holds <- judged(asked, place)
  if (is.na(holds)) {
    return(filled(without, place))
  }
  if (holds) {
    return(filled(text, place))
  }
  if (is.null(otherwise)) {
    return(untrue(
      c(text, words_of(asked)), paste0("`", one_line(deparse(asked)), "`"),
      numbers_in(asked, place)
    ))
  }
  filled(otherwise, place)
}

# The text that stands for a claim's verdict. One without a text, or a claim that is not there,
# stops the build.
tell_verdict <- function(claims, study, claim, reproduced = NULL, differs = NULL, undecided = NULL,
                         not_comparable = NULL, without = "") {
  row <- claims[claims$study == study & claims$claim == claim, ]
  if (nrow(row) != 1) {
    stop("a verdict must be that of a claim, found ", nrow(row), " of ", study, ", ", claim)
  }
  if (row$verdict == "not measured") {
    return(filled(without, parent.frame()))
  }
  text <- list(
    reproduced = reproduced, differs = differs, undecided = undecided,
    "not comparable" = not_comparable
  )[[row$verdict]]
  if (is.null(text)) {
    return(untrue(
      c(reproduced, differs, undecided, not_comparable),
      paste0("a text for the verdict `", row$verdict, "`"),
      paste0("measured = ", short(row$measured, 6), ", ", row$tolerance)
    ))
  }
  filled(text, parent.frame())
}

# TRUE, FALSE, or NA where a number that decides is missing. `all()` of nothing would be TRUE.
judged <- function(asked, place) {
  if (is.call(asked)) {
    name <- as.character(asked[[1]])[1]
    if (name %in% c("(", "all") && length(asked) == 2) {
      return(judged(asked[[2]], place))
    }
    if (name %in% c("&&", "&")) {
      return(judged(asked[[2]], place) & judged(asked[[3]], place))
    }
  }
  value <- eval(asked, place)
  if (!is.logical(value)) {
    stop(
      "an assertion must be true or false, found ", one_line(deparse(asked)), " = ",
      shown_value(value)
    )
  }
  if (length(value) == 0) NA else all(value)
}

# Each comparison's sides that are not typed, with their values.
numbers_in <- function(asked, place) {
  leaves <- unique(compared_sides(asked))
  values <- vapply(leaves, function(leaf) {
    paste(one_line(deparse(leaf)), "=", shown_value(eval(leaf, place)))
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

# The first few of the values, those of most numbers' length.
shown_value <- function(value, most = 8) {
  if (is.data.frame(value) || is.list(value)) {
    return(class(value)[1])
  }
  words <- if (is.numeric(value)) formatC(value, digits = 5, format = "g") else as.character(value)
  if (length(words) == 0) {
    return("none")
  }
  more <- if (length(words) > most) ", ..." else ""
  paste0(toString(trimws(utils::head(words, most))), more)
}

# Replace what stands in braces.
filled <- function(text, place) {
  pieces <- regmatches(text, gregexpr("\\{[^{}]+\\}", text))[[1]]
  for (piece in pieces) {
    code <- substr(piece, 2, nchar(piece) - 1)
    value <- eval(parse(text = code, keep.source = FALSE), place)
    if (length(value) != 1 || is.na(value)) {
      stop("`", code, "` in a sentence must be one word or number, found ", shown_value(value))
    }
    text <- sub(piece, as.character(value), text, fixed = TRUE)
  }
  text
}

# Stop the build: where the sentence stands, what must hold for it, and the numbers. In a draft,
# with LOSSLAB_DRAFT in the environment, all of that stands in the sentence's place.
untrue <- function(words, what, numbers) {
  told <- paste0(
    where_written(words), "the sentence \"", words[1], "\" needs ", what, ", found ", numbers,
    ": correct it, or say what is true otherwise"
  )
  if (Sys.getenv("LOSSLAB_DRAFT") != "") {
    return(paste0("**(", escape_markdown(told), ")**"))
  }
  stop(structure(
    class = c("losslab_untrue", "error", "condition"), list(message = told, call = NULL)
  ))
}

# The strings of an expression.
words_of <- function(call) {
  if (!is.call(call)) {
    return(if (is.character(call)) call)
  }
  unlist(lapply(as.list(call)[-1], words_of))
}

# "_loss.qmd, line 12: ", where the chapters lie here and one of them has the words.
where_written <- function(words, chapters = Sys.glob("*.qmd")) {
  # The longest of each that no line's end and no backslash parts.
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
