"""A campaign as an archive that others verify: pack, describe, re-run a sample."""
