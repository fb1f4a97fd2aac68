"""Records and options of instruments, from the wildcards of a rule."""

from types import SimpleNamespace

from losslab.instrument import image, kernels
from losslab.workflow import instruments


def test_records_and_options_of_an_instrument_follow_from_wildcards():
    wildcards = SimpleNamespace(backend="virtual", where="guest", on="", image="")
    assert instruments.smoke_test_kernel(wildcards) == kernels.DEFAULT
    assert instruments.smoke_test_image(wildcards) == image.HOST
    parts = instruments.smoke_test_parts(wildcards)
    assert [part.split("/")[-1].split("-")[0] for part in parts] == ["image", "kernel"]
    plain = SimpleNamespace(kernel=parts[-1].removeprefix("results/instrument/kernel-")[:-5])
    assert "--optional" not in instruments.kernel_options(plain)
