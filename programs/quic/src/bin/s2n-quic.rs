//! AWS's s2n-quic. It writes no qlog.
use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::provider::congestion_controller::{Bbr, Cubic, Provider};
use s2n_quic::provider::io::tokio::{Builder, Provider as Io};
use s2n_quic::provider::{limits::Limits, tls::rustls};
use s2n_quic::{Client, Server};
use stacks::{ALPN, CERTIFICATE, DATA, Fallible, KEY, NAME, Outcome, Role, WINDOW, arguments, draw_from_kernel, one_thread, own_address, refuse};
use std::net::SocketAddr;

fn socket(address: SocketAddr) -> Fallible<Io> {
    Ok(Builder::default().with_receive_address(address)?.with_gso_disabled()?.with_gro_disabled()?.build()?)
}

fn limits() -> Fallible<Limits> {
    let limits = Limits::new().with_data_window(WINDOW.into())?.with_max_send_buffer_size(WINDOW)?;
    Ok(limits.with_bidirectional_local_data_window(WINDOW.into())?)
}

fn server<P: Provider>(address: SocketAddr, algorithm: P) -> Fallible<Server> {
    let tls = rustls::Server::builder().with_certificate(CERTIFICATE, KEY)?.with_application_protocols([ALPN].iter())?;
    let builder = Server::builder().with_tls(tls.build()?)?.with_io(socket(address)?)?;
    Ok(builder.with_limits(limits()?)?.with_congestion_controller(algorithm)?.start()?)
}

async fn serve(address: SocketAddr, algorithm: &str) -> Outcome {
    let mut server = match algorithm {
        "cubic" => server(address, Cubic::default())?,
        "bbr" => server(address, Bbr::default())?,
        _ => refuse("CC must be cubic or bbr"),
    };
    let mut connection = server.accept().await.ok_or("no client")?;
    let mut stream = connection.accept_bidirectional_stream().await?.ok_or("no request")?;
    let mut request = Vec::new();
    while let Some(part) = stream.receive().await? {
        request.extend_from_slice(&part);
    }
    let mut left = u64::from_be_bytes(request.as_slice().try_into()?);
    while left > 0 {
        let size = DATA.len().min(left.try_into()?);
        stream.send(Bytes::from_static(&DATA[..size])).await?;
        left -= size as u64;
    }
    stream.finish()?;
    // The client closes the connection, which is no error.
    let _ = connection.accept_bidirectional_stream().await;
    Ok(())
}

async fn get(address: SocketAddr, bytes: u64) -> Outcome {
    let tls = rustls::Client::builder().with_certificate(CERTIFICATE)?.with_application_protocols([ALPN].iter())?;
    let builder = Client::builder().with_tls(tls.build()?)?.with_io(socket(own_address())?)?;
    let mut client = builder.with_limits(limits()?)?.start()?;
    let mut connection = client.connect(Connect::new(address).with_server_name(NAME)).await?;
    let mut stream = connection.open_bidirectional_stream().await?;
    stream.send(Bytes::copy_from_slice(&bytes.to_be_bytes())).await?;
    stream.finish()?;
    let mut left = bytes;
    while let Some(part) = stream.receive().await? {
        left -= part.len() as u64;
    }
    connection.close(0u8.into());
    client.wait_idle().await?;
    if left == 0 { Ok(()) } else { Err(format!("{left} bytes are missing").into()) }
}

fn main() -> Outcome {
    draw_from_kernel()?;
    let (address, role) = arguments();
    one_thread()?.block_on(async {
        match role {
            Role::Serve(algorithm) => serve(address, &algorithm).await,
            Role::Get(bytes) => get(address, bytes).await,
        }
    })
}
