"""Conditions that cannot be measured: each is refused before anything runs, and says why."""

import contextlib
import re
import shlex

import pytest

from losslab import cellspec
from losslab.reading import UsageError
from losslab.repository import ROOT
from losslab.study import design
from losslab.study.condition import AXES

NAMES = design.load_names(ROOT)
PATH = {"algorithm": "cubic", "rtt_ms": 20.0, "rate_mbit": 20.0, "duration_s": 10.0}
# Words with which a message says what would be right.
REASON = r"\b(must|needs?|excludes?|cannot|found|no|not)\b"
# A line has axes that its conditions share, and after the colon the rest of each, between bars.
REFUSED = r"""
: loss_percent=-1 | warmup_s=10 | buffer_packets=0 | path=round | app=telnet | video=4k
: loss_percent=1e-9 | reorder_percent=1e-9 | duplicate_percent=1e-9 | rtt_ms=1e-6 | jitter_ms=1e-6
: sender_delay_ms=1e-6 | policer_mbit=1e-6 | flows=cubic second_rate_mbit=1e-6
: video=128x64 | mark_packets=30 | loss_burst_packets=5 | jitter_order=mixed
: jitter_direction=both | jitter_distribution=normal | jitter_correlation_percent=25
: jitter_ms=5 jitter_correlation_percent=100
: policer_burst_packets=5 | buffer_packets=20 queue=red-step | trace_back=cellular
: trace_start_s=1 | trace_start_s=1 trace=cellular | second_rate_mbit=10
: policer_mbit=0.01 policer_burst_packets=10000 | rtt_ms=0.44 sender_delay_ms=0.5
: loss_percent=90 loss_burst_packets=2 | loss_percent=1e-5 loss_burst_packets=1000
: loss_percent=1 duplicate_percent=1 | loss_percent=1 loss_direction=back sender_delay_ms=1
: reorder_percent=1 reorder_ms=11 | start_spread_s=5 | start_spread_s=5 app=web competitor=cubic
: start_spread_s=5 competitor=cubic warmup_s=1
rtt_ms=0: jitter_ms=1 | loss_percent=1 | trace=cellular | rate_mbit=1000 | sender_queue=fq_codel
trace=cellular: shaper=tbf | shaper=tbf queue=cake | second_rate_mbit=10 flows=cubic
offloads=on: duplicate_percent=1 | ack_thinning=2
shaper=htb-netem: jitter_ms=1 | loss_percent=1 | sender_delay_ms=5 | trace=cellular | rtt_ms=0
shaper=htb-netem: queue=codel
: queue=own | qdisc= | 'qdisc=sfq limit 9' | 'qdisc=red limit 9' queue=own
queue=own: 'qdisc=sfq limit 9; reboot' | 'qdisc=hhf limit 100'
queue=own: 'qdisc=choke limit 9 bandwidth 1mbit'

# Numbers and units
: rate_mbit=20ms | rate_mbit=20Mbps | rtt_ms=20M | rtt_ms=1e99min | loss_percent=20ms
: buffer_packets=2mb | buffer_packets=2M | buffer_packets=100B | loss_burst_packets=3kB
: ack_thinning=2ms | write_kib=64KB | flows=cubic,rtt_ms=20M | buffer_packets=1e99bdp
buffer_packets=1bdp: trace=cellular | rtt_ms=0
reverse_buffer_packets=1bdp: reverse_rate_mbit=0

# Packets
: mtu_bytes=575 | mtu_bytes=-14 | mtu_bytes=65536 | ip_version=5 | ip_version=7
mtu_bytes=9000: rate_mbit=0.05 | policer_mbit=0.01 | reverse_rate_mbit=0.01
mtu_bytes=9000: changes=at_s=2,rate_mbit=0.05 | queue=bfifo buffer_packets=500000
app=quic: mtu_bytes=1227 | ip_version=5
ip_version=6: mtu_bytes=1279 | app=web | flows=cubic

# Names and kernels
: algorithm=bbr9 | kernel=5.4 | algorithm=bbr3 kernel=7.2 | app=datagram scheme=nonsense
app=datagram: scheme=ewma,gain=2 | scheme=ewma,alpha | scheme=fixed,window=-1
app=datagram: scheme=ewma,_rate_per_ms=1 | scheme=bbr window_bytes=65535
app=quic: ack_thinning=9 | initcwnd_packets=9 | initrwnd_packets=9
: queue=dualpi2 | ecn=accurate kernel=6.12 | ecn=accurate algorithm=bbr3
: sysctl=both:net.ipv4.tcp_rto_max_ms=1000
: sysctl=both:net.ipv4.tcp_abc=1
: sysctl=sender:net.ipv4.tcp_sakc=0+both:net.ipv4.conf.all.no_such=1
: window_bytes=65536 | window_bytes=256 | window_bytes=262144 | window_bytes=1000000000

# Drop lists, pauses and path schedules
: drop_list= | drop_list=data | drop_list=12 | 'drop_list=data 0' | 'drop_list=data 2,1'
: 'drop_list=data 1,1' | 'drop_list=data 1,' | 'drop_list=data 1 data 2' | 'drop_list=data  1'
: 'drop_list=up 1' | 'drop_list=data -1' | 'drop_list=data 1.5' | 'drop_list=data 2147483648'
: 'drop_list=data ١' | 'drop_list=data 1;2'
'drop_list=data 5': changes=at_s=1,outage_s=2 | pauses=per_s=1,min_ms=1,max_ms=8
'drop_list=data 5': shaper=htb-netem | offloads=on | duplicate_percent=1
: pauses=per_s=1,min_ms=1 | pauses=per_s=1,min_ms=4,max_ms=2 | pauses=per_s=0,min_ms=1,max_ms=2
: pauses=per_s=1,min_ms=1,longest=2 | pauses=per_s=1,min_ms=1,max_ms=8 changes=at_s=5,rate_mbit=2
shaper=tbf: pauses=per_s=1,min_ms=1,max_ms=8
duration_s=3600: pauses=per_s=30,min_ms=1,max_ms=2
: changes=rate_mbit=2 | changes=at_s=2 | changes=at_s=2,rate=2 | changes=at_s=2,at_s=3,rate_mbit=2
: changes=at_s=2,rate_mbit=fast | changes=at_s=2,rate_mbit=inf | changes=at_s=2,outage_s=0
: changes=at_s=0,rate_mbit=2 | changes=at_s=3,rate_mbit=2+at_s=2,rate_mbit=3 | changes=fast
: changes=at_s=3,outage_s=2+at_s=4,outage_s=1 | changes=at_s=10,rate_mbit=2
: changes=at_s=2,rate_mbit=0
: changes=at_s=8,outage_s=2 | changes=at_s=8,rate_mbit=0 | changes=at_s=8,rtt_ms=0
: changes=at_s=8,rate_mbit=1 trace=cellular | changes=at_s=8,rtt_ms=30 sender_delay_ms=5
: changes=at_s=8,rtt_ms=4 reorder_percent=1 reorder_ms=5

# Background flows
: flows=cubic, | flows=cubic,count=many | flows=cubic,count=2.5 | flows=cubic,count=1,count=2
: flows=cubic,algorithm=bbr | flows=cubic,count=0 | flows=cubic,start_s=12 | flows=same,over=first
: flows=cubic,start_s=4,end_s=3 | flows=cubic,count=5,every_s=3 | flows=cubic,rtt_ms=0.1
: flows=cubic,rate_mbit=0 | flows=cubic,rate_mbit=1,size_kb=5 | flows=cubic,size_kb=0
: flows=cubic,arrivals_per_s=5 | flows=cubic,size_kb=5,sizes=pareto | flows=cubic,over=third
: flows=cubic,arrivals_per_s=5,size_kb=5,sizes=normal | flows=cubic,count=1001 | flows=ten
: flows=cubic,arrivals_per_s=600,size_kb=1 | flows=same,rtt_ms=20000 | flows=same,direction=up
flows=same: competitor=bbr | queue=two-fifos | app=datagram scheme=fixed,window=3
flows=same,direction=back: reverse_rate_mbit=0
flows=same,direction=back reverse_rate_mbit=5: ecn=on | ack_thinning=3
: flows=same,direction=back,rtt_ms=90 reverse_rate_mbit=5
flows=same second_rate_mbit=10: jitter_ms=1 | ecn=on

# Settings of the hosts, and parameters of congestion controls
: sysctl=sender | sysctl=sender:net.ipv4.tcp_sack=0+ | sysctl=r1:net.ipv4.tcp_sack=0
: sysctl=sendr:net.ipv4.tcp_sack=0 | sysctl=sender:net/ipv4/tcp_sack=0 | sysctl=sender:tcp_sack=0
: sysctl=sender:net.ipv4.../../kernel/x=1 | sysctl=sender:kernel.hostname=me
: sysctl=sender:net.ipv4.tcp_sack= | 'sysctl=sender:net.ipv4.tcp_sack=$(reboot)'
: sysctl=sender:net.ipv4.tcp_sack=0x1 | 'sysctl=sender:net.ipv4.tcp_wmem=4096 010 3'
: sysctl=both:net.ipv4.tcp_sack=0+sender:net.ipv4.tcp_sack=0 | sysctl=both:net.core.rmem_max=1
: sysctl=sender:net.ipv4.tcp_congestion_control=bbr | sysctl=sender:net.core.default_qdisc=fq
: 'sysctl=receiver:net.ipv4.tcp_rmem=1 2 3' | sysctl=both:net.ipv4.tcp_ecn=1
: sysctl=both:net.ipv4.ip_forward=1 | 'sysctl=both:net.ipv4.tcp_mem=1 2 3'
algorithm=mine,gain=3: competitor=mine,gain=2 | competitor=mine | flows=same,gain=2
algorithm=mine,gain=3: parameters=mine.gain=2
algorithm=mine: flows=mine,gain=3,count=2 | parameters=mine.gain=2+mine.gain=3
: algorithm=cubic,hystrat=0 | algorithm=cubic,beta=many | algorithm=cubic,beta=010
: algorithm=cubic,beta=1,2 | algorithm=illinois,theta=3 | algorithm=bbr,gain=3
: algorithm=bbr flows=bbr,starts_s=3 | flows=bbr,starts_s=3 | algorithm=bbr parameters=cubic.beta=3
: algorithm=cubic,beta=3 app=quic | parameters=cubic.beta | algorithm=dctcp | flows=dctcp

# Programs
: algorithm=own | listens=sender | until=completion | env=A=1 | size_kb=10 | sender_command=./a
: competitor_sender_command=a competitor_receiver_command=b | app=quic response_kb=10
: app=quic bring=some/folder | app=quic algorithm=vegas | app=quic path=asymmetric
app=stream: size_kb=1 | app_pattern=1=max | app_pattern=0=max,3=0,2=5 | app_pattern=0=max,10=0
app=stream: app_pattern=0=1e,2=0 | app_pattern=0=2 app_rate_mbit=3 | app_rate_mbit=1001
app=stream: app_pattern=0=0,1=1001 | response_kb=10 size_kb=10 | think_ms=10
app=stream: response_kb=0.137 requests=5 | app_pattern=PATTERN
app=command: sender_command=./a | receiver_command=./b | sender_command=./a receiver_command=
app=command sender_command=./a receiver_command=./b: env=A | env= | env=1=2 | "env=A='b" | env=A-B=1
app=command sender_command=./a receiver_command=./b: 'env=A=1 A=2' | env=SENDER=1
app=command sender_command=./a receiver_command=./b: competitor_sender_command=./c
app=command sender_command=./a receiver_command=./b: competitor_listens=sender
app=command sender_command=./a receiver_command=./b: flows=bbr second_rate_mbit=10
""".replace("PATTERN", "0=0," + ",".join(f"{n / 100}=1" for n in range(1, 600)))


def cases():
    """Yield each condition's text, axes and own names; numbers without a unit are numbers."""
    for line in filter(None, REFUSED.splitlines()):
        shared, bar, rest = line.partition(": ")
        for case in rest.split(" | ") if bar else ():
            text = f"{shared.removesuffix(':')} {case}".strip(": ")
            axes = dict(word.split("=", 1) for word in shlex.split(text))
            for name, value in axes.items():
                with contextlib.suppress(ValueError):
                    axes[name] = value if AXES[name].kind == "str" else float(value)
            yield text, axes, re.findall("[a-z]{3,}", case)


def test_condition_that_cannot_be_measured_is_refused_and_names_what_is_wrong():
    unclear = []
    for text, axes, own in cases():
        with pytest.raises(UsageError) as error:
            cellspec.condition(PATH | axes, NAMES)
            pytest.fail(f"{text} must be refused")
        message = str(error.value)
        if not any(name[:5] in message for name in own) or not re.search(REASON, message):
            unclear.append(f"{text}: {message}")
    assert unclear == []
