//! Cloudflare's quiche. It has no socket of its own, so this program sends its packets when they are due.
use quiche::{Config, ConnectionId, RecvInfo, accept, connect};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stacks::{ALPN, CERTIFICATE, DATA, Fallible, KEY, NAME, Outcome, Role, WINDOW, arguments, draw_from_kernel, own_address, qlog, refuse};
use std::{fs, net::UdpSocket, time::Instant};

/// Stream of the client's request and the server's answer.
const STREAM: u64 = 0;
/// UDP payload of a full packet, as in quiche's own server.
const PACKET_BYTES: usize = 1350;

fn config(role: &Role) -> Fallible<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    if let Role::Serve(algorithm) = role {
        fs::write("/tmp/cert.pem", CERTIFICATE)?;
        fs::write("/tmp/key.pem", KEY)?;
        config.load_cert_chain_from_pem_file("/tmp/cert.pem")?;
        config.load_priv_key_from_pem_file("/tmp/key.pem")?;
        // CUBIC as it was before version 0.28: idle time counts from the last packet sent.
        config.set_enable_cubic_idle_restart_fix(algorithm != "cubic-unfixed");
        let name = if algorithm == "cubic-unfixed" { "cubic" } else { algorithm };
        config.set_cc_algorithm_name(name).unwrap_or_else(|_| refuse("CC must be cubic, cubic-unfixed, reno or bbr"));
    }
    config.set_application_protos(&[ALPN])?;
    config.set_initial_max_streams_bidi(1);
    config.set_initial_max_data(WINDOW.into());
    config.set_initial_max_stream_data_bidi_local(WINDOW.into());
    config.set_initial_max_stream_data_bidi_remote(WINDOW.into());
    config.set_max_connection_window(WINDOW.into());
    config.set_max_stream_window(WINDOW.into());
    config.set_max_send_udp_payload_size(PACKET_BYTES);
    config.verify_peer(false);
    Ok(config)
}

fn main() -> Outcome {
    draw_from_kernel()?;
    let (address, role) = arguments();
    let mut config = config(&role)?;
    let socket = UdpSocket::bind(if matches!(role, Role::Get(_)) { own_address() } else { address })?;
    let local = socket.local_addr()?;
    let id = ConnectionId::from_ref(&[7; 16]);
    let mut connection = match role {
        Role::Get(_) => Some(connect(Some(NAME), &id, local, address, &mut config)?),
        Role::Serve(_) => None,
    };
    let (mut asked, mut left, mut due) = (false, 0, None);
    let (mut received, mut packet) = ([0; 1 << 16], [0; PACKET_BYTES]);
    let mut writer = qlog(&role);
    loop {
        if let Some(connection) = &mut connection {
            if let Some(file) = writer.take() {
                connection.set_qlog(Box::new(file), NAME.into(), "".into());
            }
            connection.on_timeout();
            if let Role::Get(bytes) = role
                && connection.is_established()
                && !asked
            {
                connection.stream_send(STREAM, &bytes.to_be_bytes(), true)?;
                (asked, left) = (true, bytes);
            }
            while let Ok((length, finished)) = connection.stream_recv(STREAM, &mut received) {
                if asked {
                    left -= length as u64;
                } else {
                    left = u64::from_be_bytes(received[..length].try_into()?);
                }
                if asked && finished {
                    connection.close(true, 0, b"")?;
                }
            }
            while !asked && left > 0 {
                let size = DATA.len().min(left.try_into()?);
                match connection.stream_send(STREAM, &DATA[..size], size as u64 == left) {
                    Ok(sent) => left -= sent as u64,
                    Err(_) => break,
                }
            }
            loop {
                let Some((length, info)) = due.or_else(|| connection.send(&mut packet).ok()) else { break };
                due = Some((length, info));
                if info.at > Instant::now() {
                    break;
                }
                socket.send_to(&packet[..length], info.to)?;
                due = None;
            }
            if connection.is_closed() || connection.is_draining() {
                return if left == 0 { Ok(()) } else { Err(format!("{left} bytes are missing").into()) };
            }
        }
        let timer = connection.as_ref().and_then(|each| each.timeout_instant());
        let wake = [timer, due.map(|(_, info)| info.at)].into_iter().flatten().min();
        let wait = wake.map(|at| Timespec::try_from(at.saturating_duration_since(Instant::now()))).transpose()?;
        // Read all packets that are there before any answer, as quiche's own programs do.
        let mut readable = poll(&mut [PollFd::new(&socket, PollFlags::IN)], wait.as_ref())?;
        while readable > 0 {
            let (length, from) = socket.recv_from(&mut received)?;
            if connection.is_none() {
                connection = Some(accept(&id, None, local, from, &mut config)?);
            }
            let _ = connection.as_mut().map(|each| each.recv(&mut received[..length], RecvInfo { from, to: local }));
            readable = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&Timespec::default()))?;
        }
    }
}
