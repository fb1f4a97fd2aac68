"""Options dropped by a kernel's configuration, and digests of images."""

from losslab.instrument import image, kernel


def test_dropped_symbols_are_named():
    fragment = "# comment\nCONFIG_A=y\nCONFIG_B=250\nCONFIG_C=n\nCONFIG_D=y\n"
    config = "CONFIG_A=y\nCONFIG_B=100\nCONFIG_C=y\n# CONFIG_D is not set\n"
    assert kernel.dropped_symbols(fragment, config) == ["CONFIG_B", "CONFIG_C", "CONFIG_D"]


def test_variants_of_the_image_do_not_change_the_hosts():
    assert image.content_hash() == image.content_hash(image.HOST)
    assert image.content_hash(image.ENGINE) != image.content_hash()
    assert set(image.packages()) < set(image.packages(image.ENGINE))
