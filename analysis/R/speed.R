# CPU time of replicates, from the file that `python -m bench.speed --write` writes.

# Read the rows of part, row, quantity and value, as text.
read_speed <- function(path) {
  speed <- utils::read.csv(path, colClasses = "character", na.strings = "")
  columns <- c("part", "row", "quantity", "value")
  if (!identical(names(speed), columns)) {
    stop(path, " must have the columns ", paste(columns, collapse = ", "))
  }
  tibble::as_tibble(speed)
}

# Look up a value of a part with one row.
speed_of <- function(speed, part, quantity) {
  value <- speed$value[speed$part == part & speed$quantity == quantity]
  if (length(value) != 1) {
    stop("the speed file must have one ", quantity, " of ", part, ", found ", length(value))
  }
  utils::type.convert(value, as.is = TRUE)
}

# Return a part with several rows as a table with a column per quantity.
speed_part <- function(speed, part) {
  speed[speed$part == part, ] |>
    dplyr::select("row", "quantity", "value") |>
    tidyr::pivot_wider(names_from = "quantity", values_from = "value") |>
    dplyr::select(-"row") |>
    utils::type.convert(as.is = TRUE)
}

# Show the emulated seconds of one flow per core-second: a row per rate.
show_speed <- function(speed, label_of) {
  rows <- speed_part(speed, "rates") |>
    dplyr::transmute(
      `Rate, Mbit/s` = format(rate_mbit, big.mark = ",", trim = TRUE),
      flow = paste0(label_of[algorithm], ", ", loss_percent, " %"),
      value = fixed(emulated_s_per_core_s, 2)
    ) |>
    tidyr::pivot_wider(names_from = "flow", values_from = "value")
  show_table(rows, align = strrep("r", ncol(rows)))
}
