"""How fast losslab is, and where the time goes: `python -m bench.speed`."""
