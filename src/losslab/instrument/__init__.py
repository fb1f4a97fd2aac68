"""Build the pinned kernel and host image once per content hash, into a cache."""
