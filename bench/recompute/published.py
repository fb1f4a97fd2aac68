"""The sources' numbers, each with the cells that stand for it and why it does not count, if so.

The numbers are those of studies/*/published.csv. Which cells stand for a number, and which numbers
follow from a fit, from the set-up or from other numbers, is what the chapters say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from bench.recompute.campaign import FRAME_BYTES, PAYLOAD_BYTES, ROOT, number, rows

Row = Mapping[str, str]
PAYLOAD_SHARE = PAYLOAD_BYTES / FRAME_BYTES
# Size of the source's web page.
PAGE_KIB = 177669 / 1024


@dataclass(frozen=True)
class Number:
    """A published number. `blocks` are in order of preference; the axes select one of their cells.

    `over` is the algorithm of a ratio's denominator, and `statistic` that of a number over seconds.
    `apart` and `because` say why a number does not count. Numbers with one `fact` count once.
    `null` is the number of a model without congestion control.
    """

    study: str
    source: str
    place: str
    blocks: tuple[str, ...]
    axes: Mapping[str, Any]
    metric: str
    published: float
    over: str = ""
    statistic: str = ""
    apart: str = ""
    because: str = ""
    fact: str = ""
    null: float | None = field(default=None)

    def key(self) -> tuple[Any, ...]:
        """Return what numbers have in common that the source repeats."""
        return (
            self.study, self.source, self.place, self.blocks, tuple(sorted(self.axes.items())),
            self.metric, self.over, self.statistic, self.apart, self.because, self.fact,
        )  # fmt: skip


def numbers_of(study: str) -> list[Number]:
    """Return a study's published numbers; those that the source repeats are their mean."""
    if study not in STUDIES:
        return []
    groups: dict[tuple[Any, ...], list[Number]] = {}
    for each in STUDIES[study](rows(ROOT / "studies" / study / "published.csv")):
        groups.setdefault(each.key(), []).append(each)
    return [
        replace(
            group[0], published=fmean(each.published for each in group),
            null=None if group[0].null is None else fmean(each.null or 0 for each in group),
        )
        for group in groups.values()
    ]  # fmt: skip


def _axes(**values: Any) -> dict[str, Any]:
    """Return the axes that have a value."""
    return {name: value for name, value in values.items() if value not in (None, "", "NA")}


def _bufferbloat(table: Sequence[Row]) -> Iterator[Number]:
    """Yield downloads and pings of the source.

    Without a long flow in the same queue, rate and RTT of the set-up give all but the deviation.
    The extremes of pings follow from their mean.
    """
    for row in table:
        alone, shared = row["load"] == "alone", row["queue"] == "fifo"
        values = {"download_s": PAGE_KIB / float(row["rate_kib_s"])} | {
            name: number(row[name])
            for name in (f"rtt_before_fetch_{part}ms" for part in ("min_", "", "max_", "mdev_"))
        }
        for metric, value in values.items():
            if value is None:
                continue
            apart = because = ""
            if metric == "rtt_before_fetch_mdev_ms":
                pass
            elif alone or not shared:
                apart, because = "configured", "rate_mbit rtt_ms"
            elif metric in ("rtt_before_fetch_min_ms", "rtt_before_fetch_max_ms"):
                apart, because = "derived", "the mean of the same pings"
            yield Number(
                "bufferbloat", "bufferbloat", f"item {row['item']}",
                ("published-web" if shared else "published-two-queues",),
                _axes(
                    algorithm=row["algorithm"], buffer_packets=100,
                    competitor="none" if alone else row["algorithm"],
                ),
                metric, value, apart=apart, because=because,
            )  # fmt: skip


CELLULAR_BLOCKS = (
    "source-trace", "windows", "aimd", "aimd-single", "threshold", "approaches", "ewma", "grid",
)  # fmt: skip


def _cellular(table: Sequence[Row]) -> Iterator[Number]:
    """Yield the source's runs. Power is throughput over delay. Copies of a run count once."""
    copied = set()
    for row in table:
        run = tuple(
            row[k] for k in ("exercise", "scheme", "throughput_mbit", "signal_delay_p95_ms")
        )
        if run in copied:
            continue
        copied.add(run)
        throughput, delay = number(row["throughput_mbit"]), number(row["signal_delay_p95_ms"])
        values = {
            "link_throughput_mbit": throughput,
            "queue_delay_p95_ms": number(row["queue_delay_p95_ms"]),
            "signal_delay_p95_ms": delay,
            "power": 1000 * throughput / delay if throughput is not None and delay else None,
        }
        for metric, value in values.items():
            if value is not None:
                apart = metric == "power"
                yield Number(
                    "cellular", "cellular", f"exercise {row['exercise']}", CELLULAR_BLOCKS,
                    _axes(scheme=row["scheme"]), metric, value,
                    apart="derived" if apart else "",
                    because="throughput over delay" if apart else "",
                )  # fmt: skip


CLOUD_METRICS = (
    "goodput_mbit", "competitor_goodput_mbit", "srtt_mean_ms", "srtt_std_ms", "srtt_median_ms",
    "cwnd_median_packets", "completion_s", "retransmits", "competitor_retransmits",
    "retransmits_first_second", "rwnd_limited_percent",
)  # fmt: skip


def _cloud(table: Sequence[Row]) -> Iterator[Number]:
    """Yield the numbers of the source's text and of its log."""
    for row in table:
        median = number(row["srtt_median_ms"])
        if median is not None and median <= 1:
            continue  # that run of the log had no added delay
        video, alone = row["app"] == "ffmpeg", row["competitor"] == "none"
        in_text = row["from"] == "text"
        if video:
            blocks: tuple[str, ...] = ("published-video",)
        elif not alone:
            blocks = ("published-fairness",)
        else:
            blocks = ("logged", "published") if in_text else ("logged",)
        for metric in CLOUD_METRICS:
            if (value := number(row[metric])) is None:
                continue
            apart, because = _cloud_apart(row, metric, value, in_text, video, alone)
            yield Number(
                "cloud", "cloud", f"section {row['section']}" if in_text else "log", blocks,
                _axes(
                    app=row["app"], algorithm=row["algorithm"], competitor=row["competitor"],
                    loss_percent=number(row["loss_percent"]),
                ),
                "throughput_mbit" if video and metric == "goodput_mbit" else metric, value,
                apart=apart, because=because,
            )  # fmt: skip


def _cloud_apart(
    row: Row, metric: str, value: float, in_text: bool, video: bool, alone: bool
) -> tuple[str, str]:
    """Say why a number of the cloud does not count."""
    goodput, algorithm = metric == "goodput_mbit", row["algorithm"]
    any_goodput = metric in ("goodput_mbit", "competitor_goodput_mbit")
    # So little loss hits few packets of five seconds: they repeat the fitted run without loss.
    repeats = algorithm == "cubic" and float(row["loss_percent"]) <= 0.01
    reasons = (
        (metric == "srtt_mean_ms" and value == 23.336,
         "not comparable", "this RTT of the text is in none of the logs"),
        (video and goodput, "not comparable", "the source's is the encoder's own report"),
        (metric in ("srtt_mean_ms", "srtt_median_ms"), "configured", "rtt_ms sender_delay_ms"),
        (video and metric == "completion_s", "configured", "duration_s"),
        (not in_text and any_goodput, "derived", "the text's goodput of the same run"),
        (alone and goodput and repeats, "fitted", "buffer_packets"),
        (alone and goodput and algorithm == "bbr",
         "configured", "receive_buffer rate_mbit buffer_packets"),
    )  # fmt: skip
    return next(((apart, because) for holds, apart, because in reasons if holds), ("", ""))


def _loss(table: Sequence[Row]) -> Iterator[Number]:
    """Yield the source's means, and the statistics of its seconds.

    CUBIC at 1 % was fitted. Where the source's hosts limit the goodput, its means state one fact.
    """
    for row in table:
        algorithm, loss = row["algorithm"], float(row["loss_percent"])
        fitted = algorithm == "cubic" and loss == 1
        of_hosts = loss == 0 or (algorithm == "bbr" and loss <= 5)
        model = algorithm == "cubic" and loss > 0
        base = Number(
            "loss", "loss", f"slide {row['slide']}", ("long", "main"),
            _axes(app="iperf3", algorithm=algorithm, path=row["path"], loss_percent=loss),
            "goodput_mbit", float(row["mean"]),
            apart="fitted" if fitted else "", because="rtt_ms" if fitted else "",
            fact="what its hosts can send" if of_hosts else "",
            # CUBIC's fitted number over the root of the loss, or the link less the loss.
            null=235.51 / math.sqrt(loss) if model else 1000 * PAYLOAD_SHARE * (1 - loss / 100),
        )  # fmt: skip
        yield base
        for statistic in ("std", "min", "q25", "median", "q75", "max"):
            if (value := number(row[statistic])) is None:
                continue
            # The fit to the mean is one to the middle of the seconds, not to their scatter.
            middle = fitted and statistic in ("q25", "median", "q75")
            yield replace(
                base, source="loss, seconds", statistic=statistic, published=value, fact="",
                null=None, apart="fitted" if middle else "", because="rtt_ms" if middle else "",
            )  # fmt: skip


MAP_SOURCES = {"kim": "map", "cao2019": "Cao et al. 2019", "datta2023": "Datta and Fund 2023"}


def _map(table: Sequence[Row]) -> Iterator[Number]:
    """Yield the numbers of the source, of the paper it follows and of the paper's replication."""
    for row in table:
        short, _, kernel = row["source"].partition(" (")
        kernel, row_number = kernel.rstrip(")"), number(row["row"])
        replication = short == "datta2023"
        rate = number(row["rate_mbit"])
        axes = _axes(
            rtt_ms=number(row["rtt_ms"]), buffer_packets=number(row["buffer_packets"]),
            loss_percent=number(row["loss_percent"]), rate_mbit=rate,
        )  # fmt: skip

        # Rows of the source have a number, and those of the replication the kernel.
        place = f"row {row_number:g}" if row_number is not None else kernel if replication else ""
        common: dict[str, Any] = {"study": "map", "source": MAP_SOURCES[short]}
        if row["from_s"]:
            # Seconds of the replication's logs; the source's log has no condition.
            for metric in ("goodput_mbit", "retransmits_first_second"):
                if replication and (value := number(row[metric])) is not None:
                    yield Number(
                        **common, place=place or "text", blocks=("shallow-start",),
                        axes=axes | {"algorithm": "cubic", "sender_queue": "fq_codel"},
                        metric=metric, published=value,
                    )  # fmt: skip
            continue
        for algorithm in ("bbr", "cubic"):
            # Two rows of the source are of a LAN of 100 Mbit/s, which its row 3 for BBR shows.
            lan = short == "kim" and row_number in (3, 8)
            first = "shallow-unpaced" if algorithm == "cubic" else "shallow"
            blocks: tuple[str, ...] = (first, "paper", "imc")
            if short == "kim":
                blocks = ("lan",) if lan else ("published",)
            shows = row_number == 3 and algorithm == "bbr"
            for metric, column in (("goodput_mbit", "mbit"), ("retransmits", "retransmits")):
                if (value := number(row[f"{algorithm}_{column}"])) is None:
                    continue
                own_axes = axes | {"algorithm": algorithm} | ({"rate_mbit": 100} if lan else {})
                yield Number(
                    **common, place=place or "text", blocks=blocks, axes=own_axes, metric=metric,
                    published=value, apart="configured" if shows else "",
                    because="rate_mbit" if shows else "",
                    null=own_axes["rate_mbit"] * PAYLOAD_SHARE if column == "mbit" else None,
                )  # fmt: skip
        if (gain := number(row["gain_percent"])) is not None:
            yield Number(
                **common, place=place or "gain", blocks=("shallow", "paper", "imc"),
                axes=axes | {"algorithm": "bbr"}, metric="goodput_mbit", over="cubic",
                published=1 + gain / 100, null=1,
            )  # fmt: skip


def _predictions(table: Sequence[Row]) -> Iterator[Number]:
    """Yield the numbers of the three data sets. Those of the model are our own."""
    blocks = {"rebbr (jervisfm)": "behind", "jittertrap (acooks 2025)": "window"}
    for row in table:
        if row["source"] == "model":
            continue
        loss = number(row["loss_percent"])
        other = "two-bbr3" if loss == 0 else "aggregates"
        rate, rtt = row["rate_mbit"], row["rtt_ms"]
        for column, metric in (
            ("goodput_mbit", "goodput_mbit"), ("competitor_goodput_mbit", "flows_goodput_mbit"),
        ):  # fmt: skip
            if (value := number(row[column])) is not None:
                yield Number(
                    "predictions", row["source"],
                    f"{row['algorithm'].upper()}, {rate} Mbit/s, {rtt} ms, {row['loss_percent']} %",
                    (blocks.get(row["source"], other),),
                    _axes(
                        algorithm=row["algorithm"], rate_mbit=float(rate), rtt_ms=float(rtt),
                        offloads=row["offloads"], loss_percent=loss,
                    ),
                    metric, value,
                )  # fmt: skip


STUDIES: dict[str, Callable[[Sequence[Row]], Iterator[Number]]] = {
    "bufferbloat": _bufferbloat, "cellular": _cellular, "cloud": _cloud, "loss": _loss, "map": _map,
    "predictions": _predictions,
}  # fmt: skip
