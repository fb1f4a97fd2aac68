//! AWS's s2n-quic, on tokio's runtime of one thread. It writes no qlog.
use s2n_quic::provider::congestion_controller::{Bbr, Cubic};
use s2n_quic::{Client, Server, client::Connect, provider::limits::Limits};
use stacks::{BUFFER, CERTIFICATE, DATA, KEY, NAME, Outcome, Role, WINDOW, arguments, own_address, refuse};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let (address, role) = arguments();
    let limits = Limits::new()
        .with_data_window(WINDOW.into())?
        .with_bidirectional_local_data_window(WINDOW.into())?
        .with_max_send_buffer_size(BUFFER)?;
    let algorithm = match role {
        Role::Serve(algorithm) => algorithm,
        Role::Get(bytes) => return get(address, bytes, limits).await,
    };
    let server = Server::builder().with_tls((CERTIFICATE, KEY))?.with_io(address)?.with_limits(limits)?;
    let mut server = match algorithm.as_str() {
        "cubic" => server.with_congestion_controller(Cubic::default())?.start()?,
        "bbr" => server.with_congestion_controller(Bbr::default())?.start()?,
        _ => refuse("CC must be cubic or bbr"),
    };
    let mut connection = server.accept().await.ok_or("no connection")?;
    let mut stream = connection.accept_bidirectional_stream().await?.ok_or("no stream")?;
    let mut request = Vec::new();
    while let Some(part) = stream.receive().await? {
        request.extend(part);
    }
    let mut left = u64::from_be_bytes(request[..].try_into()?);
    while left > 0 {
        let size = DATA.len().min(left.try_into()?);
        stream.send(DATA[..size].into()).await?;
        left -= size as u64;
    }
    stream.close().await?;
    Ok(())
}

async fn get(address: std::net::SocketAddr, bytes: u64, limits: Limits) -> Outcome {
    let client = Client::builder().with_tls(CERTIFICATE)?.with_io(own_address())?.with_limits(limits)?.start()?;
    let mut connection = client.connect(Connect::new(address).with_server_name(NAME)).await?;
    let mut stream = connection.open_bidirectional_stream().await?;
    stream.send(bytes.to_be_bytes().to_vec().into()).await?;
    stream.finish()?;
    let mut left = bytes;
    while let Some(part) = stream.receive().await? {
        left -= part.len() as u64;
    }
    if left == 0 { Ok(()) } else { Err(format!("{left} bytes are missing").into()) }
}
