"""losslab measures how loss, delay, buffers and path shape affect TCP congestion control."""

__version__ = "0.1.0"
