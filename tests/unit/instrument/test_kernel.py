"""Kernels: options dropped by its configuration, and digests of variants."""

from losslab.instrument import image, kernel


def test_dropped_symbols_are_named():
    fragment = "# comment\nCONFIG_A=y\nCONFIG_B=250\nCONFIG_C=n\nCONFIG_D=y\n"
    config = "CONFIG_A=y\nCONFIG_B=100\nCONFIG_C=y\n# CONFIG_D is not set\n"
    assert kernel.dropped_symbols(fragment, config) == ["CONFIG_B", "CONFIG_C", "CONFIG_D"]


def test_variants_do_not_change_the_plain_builds():
    assert kernel.content_hash() == kernel.content_hash(kernel.PLAIN)
    assert kernel.content_hash(kernel.CONTAINERS) != kernel.content_hash()
    assert image.content_hash() == image.content_hash(image.HOST)
    assert image.content_hash(image.ENGINE) != image.content_hash()
    assert set(image.packages()) < set(image.packages(image.ENGINE))
