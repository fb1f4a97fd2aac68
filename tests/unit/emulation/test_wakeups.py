import os
import socket

from losslab.emulation.programs import receive_blocks


def connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    return sender, receiver


def test_only_the_connection_from_the_port_is_set():
    (sender, receiver), (other_sender, other_receiver) = connection(), connection()
    with sender, receiver, other_sender, other_receiver:
        assert receive_blocks(os.getpid(), sender.getsockname()[1], 16_384)
        assert receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 16_384
        assert other_receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
        # The descriptor was borrowed, not taken.
        sender.sendall(b"x" * 16_384)
        assert len(receiver.recv(16_384)) == 16_384


def test_no_such_connection_is_said():
    assert not receive_blocks(os.getpid(), 1, 16_384)
