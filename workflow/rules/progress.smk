"""Which campaign the results are of, for those who verify them."""

from losslab.campaign import recorded


def record_campaign():
    """Note in the results which campaign they are of."""
    recorded.record(Path("results"), workflow.configfiles, config)
