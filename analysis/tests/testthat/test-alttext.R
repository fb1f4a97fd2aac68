drawn <- tibble::tibble(
  block = "main", cell = rep(c("a", "b"), each = 2), algorithm = rep(c("cubic", "bbr"), each = 2),
  loss_percent = rep(c(0, 10), 2), mean = c(956, 5.6, 950, 760)
)
looks <- tibble::tibble(
  name = c("cubic", "bbr"), label = c("CUBIC", "BBR"), colour = c("#0072B2", "#D55E00"),
    shape = 16:17
)
lines_of <- function(data) {
  ggplot2::ggplot(data, ggplot2::aes(loss_percent, mean, colour = algorithm)) +
    ggplot2::geom_line() +
    algorithm_scales(looks) +
    log_mbit() +
    ggplot2::labs(x = "Packet loss (%)", y = "Goodput (Mbit/s)")
}

test_that("a figure's data come from its layers, without constant columns", {
  extra <- ggplot2::geom_point(
    ggplot2::aes(loss_percent, mean), tibble::tibble(loss_percent = 5, mean = 100),
    inherit.aes = FALSE
  )
  found <- figure_data(lines_of(drawn) + extra)
  expect_equal(nrow(found), 5)
  expect_false("block" %in% names(found))
  expect_equal(found$mean, c(drawn$mean, 100))
  both <- patchwork::wrap_plots(lines_of(drawn[1:2, ]), lines_of(drawn[3:4, ]))
  expect_equal(figure_data(both)$mean, drawn$mean)
  expect_equal(nrow(figure_data(ggplot2::ggplot())), 0)
})

test_that("a figure's alternative text comes from the drawn data", {
  words <- describe_figure(lines_of(drawn))
  expect_match(words, "Across: Packet loss (%), 0 to 10.", fixed = TRUE)
  expect_match(words, "Upwards: Goodput (Mbit/s), 5.6 to 956.", fixed = TRUE)
  expect_match(words, "CUBIC: 956 at 0, 5.6 at 10.", fixed = TRUE)
  expect_match(words, "BBR: 950 at 0, 760 at 10.", fixed = TRUE)
  expect_equal(describe_figure(ggplot2::ggplot()), "Nothing is drawn.")
})

test_that("alternative texts describe panels and time series", {
  drawn$path <- rep(c("One path", "Another"), 2)
  words <- describe_figure(lines_of(drawn) + ggplot2::facet_wrap(ggplot2::vars(path)))
  expect_match(words, "Panels: Another and One path.", fixed = TRUE)
  expect_match(words, "CUBIC (One path): 956 at 0.", fixed = TRUE)
  series <- tibble::tibble(
    algorithm = "cubic", loss_percent = 1:40, mean = seq(10, 88, length.out = 40)
  )
  expect_match(describe_figure(lines_of(series)), "CUBIC: 10 to 88.", fixed = TRUE)
})

test_that("Markdown marks are removed from a table's text", {
  expect_equal(
    plain_words(c(
      "[\u25a0\u00a0[not reproduced](#why-x)]{.verdict}", "*m*", "a\\_b", "`x`", "1 %"
    )),
    c("not reproduced", "m", "a_b", "x", "1 %")
  )
})
