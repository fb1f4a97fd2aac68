"""Messages of the guest's kernel during a run."""

from losslab.campaign.replicate import has_messages
from losslab.emulation.jobs import guest


def test_messages_that_the_console_hides_are_kept(tmp_path):
    """E: the printk of a valid run was lost."""
    log = "<6>[   20.1] mine: cwnd 10\n<4>[   20.2] careful\n<3>[   20.3] on the console\nrest\n"
    lines = list(guest.kernel_messages(log))
    assert lines == ["kernel: [   20.1] mine: cwnd 10\n", "kernel: [   20.2] careful\n"]
    console = tmp_path / "console.log"
    console.write_text("".join(lines))
    assert has_messages(console)
    console.write_text("Linux\n")
    assert not has_messages(console)
