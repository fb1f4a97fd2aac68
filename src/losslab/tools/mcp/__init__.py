"""`losslab mcp`: a server that lets an assistant use losslab's commands."""
