"""Command `compare`: a measurement of iperf3, flent, a packet capture or a CSV beside a run."""
