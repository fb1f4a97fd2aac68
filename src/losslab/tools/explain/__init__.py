"""Which unstated setting makes a measured number the published one: `losslab explain`."""
