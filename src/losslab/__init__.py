"""losslab: what loss, delay, buffers and path shape do to TCP congestion control."""

__version__ = "0.1.0"
