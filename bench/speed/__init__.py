"""Speed of losslab and breakdown of its time: `python -m bench.speed`."""
