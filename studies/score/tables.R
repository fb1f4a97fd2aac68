# The verdict on every case of the suite, for every algorithm.
tables <- function(data, write) {
  data$criteria |>
    mutate(across(where(is.character), \(text) coalesce(text, ""))) |>
    write("criteria")
}
