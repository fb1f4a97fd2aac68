"""Page of golden conditions on every kernel."""

from bench import kernels


def test_kernels_page_has_a_row_per_condition_and_a_column_per_kernel():
    rows = [
        kernels.Row("bare", "6.12", "9.404 goodput_mbit", "8 of 8"),
        kernels.Row("bare", "6.1", "9.398 goodput_mbit", "2 of 8"),
        kernels.Row("new", "6.12", "1.250 page_s", "9 of 9"),
        kernels.Row("new", "6.1", "error: queue dualpi2 needs", "0 of 9"),
    ]
    page = kernels.page(rows, ["6.12", "6.1"])
    assert "the same bytes as on Linux 6.12." in page.replace("\n", " ")
    assert page.splitlines()[-4:] == [
        "| condition | metric | Linux 6.12 | Linux 6.1 |",
        "| --- | --- | ---: | ---: |",
        "| bare | `goodput_mbit` | 9.404 | 9.398 (2/8) |",
        "| new | `page_s` | 1.250 | cannot be measured |",
    ]
