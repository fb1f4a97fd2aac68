"""Parameters of congestion controls in a guest: those of Linux's, and of own algorithms."""

from dataclasses import replace

from losslab import new
from losslab.campaign.instrument import instrument
from losslab.campaign.replicate import run
from losslab.instrument import kernels
from losslab.instrument.commands import registration
from losslab.reading import read_rows
from losslab.repository import ROOT
from losslab.runs.shell import execute
from losslab.study.condition import Condition
from losslab.study.names import OF_INTERFACE
from tests.e2e.conftest import COMPILES

PATH = Condition(
    algorithm="cubic", rtt_ms=40, rate_mbit=20, buffer_packets=300, duration_s=2, warmup_s=0.5
)
# The module's setter refuses 7, and changes 9.
GAIN = """\
static uint gain = 1;
static int set_gain(const char *text, const struct kernel_param *its)
{
	int error = *text == '7' ? -ERANGE : param_set_uint(text, its);

	if (!error && gain == 9)
		gain = 8;
	return error;
}
static const struct kernel_param_ops gain_ops = { .set = set_gain, .get = param_get_uint };
module_param_cb(gain, &gain_ops, &gain, 0644);
"""


def measured(condition, out):
    manifest = run(condition, 1, out, instrument(condition=condition), attempts=1)
    return manifest, (out / "tcp.csv").read_bytes() if (out / "tcp.csv").exists() else b""


def test_cubic_without_hystart_differs_and_a_default_has_the_bytes_of_none(tmp_path):
    plain, without_any = measured(PATH, tmp_path / "plain")
    off, without_hystart = measured(replace(PATH, algorithm="cubic,hystart=0"), tmp_path / "off")
    on, with_hystart = measured(replace(PATH, algorithm="cubic,hystart=1"), tmp_path / "on")
    assert plain["reasons"] == off["reasons"] == on["reasons"] == []
    assert off["machine"]["parameters"] == {"tcp_cubic.hystart": "0"}
    assert "parameters" not in plain["machine"]
    assert without_hystart != with_hystart == without_any


def test_table_of_parameters_has_those_of_the_kernel_with_their_defaults():
    _, text = execute("grep -s . /sys/module/tcp_*/parameters/*", PATH, 1, instrument())
    words = (line.removeprefix("/sys/module/tcp_").split("/", 2) for line in text.splitlines())
    found = {(name, *word.split(":", 1)) for name, _, word in words}
    rows = read_rows(ROOT / "config" / "parameters.tsv", "\t")
    readable = {(row["algorithm"], row["parameter"], row["default"]) for row in rows
                if row["mode"] != "0"}  # fmt: skip
    assert found == readable


def test_list_of_qdiscs_and_sysctls_has_those_of_the_kernel():
    """`losslab shell -c 'sender find /proc/sys/net -type f'` lists what the file must have."""
    rows = read_rows(ROOT / "config" / "kernel-names.tsv", "\t")
    listed = {what: {row["name"] for row in rows if row["what"] == what}
              for what in ("qdisc", "sysctl")}  # fmt: skip
    _, text = execute("sender find /proc/sys/net -type f", PATH, 1, instrument())
    names = (line.removeprefix("/proc/sys/").replace("/", ".") for line in text.splitlines())
    found = {OF_INTERFACE.sub(r".\1.*.", name) for name in names}
    assert found == listed["sysctl"]
    others = {"hhf", "sfb", "hfsc", "qfq", "multiq", "plug", "skbprio", "choke", "ets", "cbs"}
    # tc checks some options before it asks the kernel.
    options = {"choke": "limit 10 bandwidth 10mbit min 3 max 5", "ets": "bands 2",
               "red": "limit 9000 avpkt 1000 bandwidth 10mbit", "htb": "",
               "tbf": "rate 1mbit burst 9k limit 9k"}  # fmt: skip
    script = "\n".join(
        f"echo '>'{kind}; sender tc qdisc replace dev sender-r1 root {kind} "
        f"{options.get(kind, '')} 2>&1; sender tc qdisc del dev sender-r1 root 2>/dev/null"
        for kind in sorted(others | listed["qdisc"])
    )
    _, text = execute(script, PATH, 1, instrument())
    unknown = {part.split()[0] for part in text.split(">")[1:] if "kind is unknown" in part}
    assert unknown & listed["qdisc"] == set()
    assert unknown == others


def test_kernel_that_refuses_a_value_says_why(tmp_path):
    condition = replace(PATH, algorithm="dctcp,dctcp_shift_g=99", ecn="on")
    manifest, _ = measured(condition, tmp_path / "out")
    assert not manifest["valid"]
    assert "tcp_dctcp.dctcp_shift_g=99, found 4 (EINVAL" in " ".join(manifest["reasons"])


@COMPILES
def test_own_algorithm_has_its_parameters_from_its_first_line_on(campaign_folder, tmp_path):
    path = campaign_folder / new.new_algorithm("mine", "Mine", campaign_folder)
    text = path.read_text()
    assert "acked = tcp_slow_start(tp, acked);" in text
    text = text.replace("acked = tcp_slow_start(tp, acked);",
                        "acked = tcp_slow_start(tp, acked * gain);")  # fmt: skip
    head, mark, rest = text.partition("#include <net/tcp.h>\n")
    path.write_text(head + mark + GAIN + rest)
    mine = replace(PATH, algorithm="mine")
    assert registration(kernels.get(kernels.DEFAULT, ["mine"])) == [
        "mine registers on 6.12; its parameters are gain=1"
    ]
    bytes_of = {}
    for gain in ("1", "3"):
        manifest, bytes_of[gain] = measured(
            replace(mine, parameters=f"mine.gain={gain}"), tmp_path / gain
        )
        assert manifest["reasons"] == []
        assert manifest["machine"]["parameters"] == {"tcp_mine.gain": gain}
    assert bytes_of["1"] != bytes_of["3"]
    for gain, found in {"7": "ERANGE", "9": "8 (the module changed it)"}.items():
        manifest, _ = measured(replace(mine, parameters=f"mine.gain={gain}"), tmp_path / gain)
        assert found in " ".join(manifest["reasons"])


@COMPILES
def test_copy_of_an_algorithm_has_its_own_parameters(campaign_folder, tmp_path):
    new.imported("cubic2", "CUBIC 2", campaign_folder, "cubic")
    condition = replace(PATH, algorithm="cubic,hystart=0", competitor="cubic2,beta=800")
    manifest, _ = measured(condition, tmp_path / "out")
    assert manifest["reasons"] == []
    read = {"tcp_cubic.hystart": "0", "tcp_cubic2.beta": "800"}
    assert manifest["machine"]["parameters"] == read


# A window that only an option of the socket sets. Like others, the module puts a protocol of its
# own in place of TCP's, locks the socket, and refuses an option of another size.
FIXED = """\
#include <linux/module.h>
#include <net/tcp.h>
static struct proto fixed_prot;
struct fixed { u32 window; };
static int fixed_setsockopt(struct sock *sk, int level, int optname, sockptr_t value,
				unsigned int length)
{
	struct { u16 unused; u32 window; } __packed its;

	if (level != SOL_TCP || optname != 23301)
		return tcp_prot.setsockopt(sk, level, optname, value, length);
	if (length != sizeof(its))
		return -EINVAL;
	if (copy_from_sockptr(&its, value, sizeof(its)))
		return -EFAULT;
	lock_sock(sk);
	((struct fixed *)inet_csk_ca(sk))->window = its.window;
	release_sock(sk);
	return 0;
}
static void fixed_init(struct sock *sk)
{
	((struct fixed *)inet_csk_ca(sk))->window = 1;
	sk->sk_prot = &fixed_prot;
}
static void fixed_release(struct sock *sk) { sk->sk_prot = &tcp_prot; }
static u32 fixed_ssthresh(struct sock *sk) { return TCP_INFINITE_SSTHRESH; }
static void fixed_main(struct sock *sk, const struct rate_sample *rs)
{
	tcp_sk(sk)->snd_cwnd = ((struct fixed *)inet_csk_ca(sk))->window;
}
static struct tcp_congestion_ops fixed __read_mostly = {
	.name = "fixed", .owner = THIS_MODULE, .init = fixed_init, .release = fixed_release,
	.ssthresh = fixed_ssthresh, .cong_control = fixed_main, .undo_cwnd = tcp_reno_undo_cwnd,
};
static int __init fixed_register(void)
{
	fixed_prot = tcp_prot;
	fixed_prot.setsockopt = fixed_setsockopt;
	return tcp_register_congestion_control(&fixed);
}
module_init(fixed_register);
MODULE_LICENSE("GPL");
"""
OPTIONS = """
[[socket_options]]
level = 6
name = 23301
value = "u16 7, u32 window=8"
[[socket_options]]
level = 1
name = 47
value = "u64 1000000000"
[[socket_options]]
level = 6
name = 25
value = "u32 100000"
"""


@COMPILES
def test_options_of_sockets_are_set_on_every_connection(campaign_folder, tmp_path):
    (tmp_path / "fixed.c").write_text(FIXED)
    made, notes = new.imported("fixed", "Fixed", campaign_folder, str(tmp_path / "fixed.c"))
    assert "it takes options of sockets" in "; ".join(notes)
    file = campaign_folder / made
    declared = file.read_text()
    file.write_text(declared + OPTIONS)
    path = replace(PATH, algorithm="fixed", flows="fixed,start_s=1,count=2")
    windows = {}
    for window in ("8", "20"):
        condition = replace(path, parameters=f"fixed.window={window}")
        manifest, _ = measured(condition, tmp_path / window)
        assert manifest["reasons"] == []
        rows = read_rows(tmp_path / window / "tcp.csv", ",")
        # iperf3 also has a connection for control.
        bulk = [row for row in rows if int(row["delivered_bytes"]) > 50_000]
        windows[window] = {row["cwnd_packets"] for row in bulk}
        assert len({row["flow"] for row in bulk}) == 3
    assert windows == {"8": {"8"}, "20": {"20"}}
    page = replace(PATH, algorithm="fixed", app="web", flows="none", duration_s=28)
    assert measured(page, tmp_path / "web")[0]["reasons"] == []
    file.write_text(declared + OPTIONS.replace("u16 7, ", ""))
    manifest, _ = measured(path, tmp_path / "refused")
    assert "fixed must take its socket option 23301 of level 6, found error -22" in " ".join(
        manifest["reasons"]
    )
