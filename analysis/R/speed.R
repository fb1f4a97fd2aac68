# What a replicate costs: the file that `python -m bench.speed --write` leaves.

# Rows of part, row, quantity and value, as text: some are words.
read_speed <- function(path) {
  speed <- utils::read.csv(path, colClasses = "character", na.strings = "")
  columns <- c("part", "row", "quantity", "value")
  if (!identical(names(speed), columns)) {
    stop(path, " must have the columns ", paste(columns, collapse = ", "))
  }
  tibble::as_tibble(speed)
}

# One value of a part that has one row.
speed_of <- function(speed, part, quantity) {
  value <- speed$value[speed$part == part & speed$quantity == quantity]
  if (length(value) != 1) {
    stop("one ", quantity, " of ", part, " must be there, found ", length(value))
  }
  utils::type.convert(value, as.is = TRUE)
}

# A part of several rows as a table, a column per quantity.
speed_part <- function(speed, part) {
  speed[speed$part == part, ] |>
    dplyr::select("row", "quantity", "value") |>
    tidyr::pivot_wider(names_from = "quantity", values_from = "value") |>
    dplyr::select(-"row") |>
    utils::type.convert(as.is = TRUE)
}

# Emulated seconds for a core-second, of one flow: a row per rate.
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
