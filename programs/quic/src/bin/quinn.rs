//! quinn, on tokio's runtime of one thread.
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use quinn::{ClientConfig, Endpoint, QlogConfig, ServerConfig, TransportConfig};
use stacks::{BUFFER, CERTIFICATE, DATA, KEY, NAME, Outcome, Role, WINDOW, arguments, own_address, qlog, refuse};
use std::sync::Arc;

fn transport(role: &Role) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.stream_receive_window(WINDOW.into()).receive_window(WINDOW.into()).send_window(BUFFER.into());
    if let Role::Serve(algorithm) = role {
        let factory: Arc<dyn ControllerFactory + Send + Sync> = match algorithm.as_str() {
            "cubic" => Arc::new(CubicConfig::default()),
            "reno" => Arc::new(NewRenoConfig::default()),
            "bbr" => Arc::new(BbrConfig::default()),
            _ => refuse("CC must be cubic, reno or bbr"),
        };
        config.congestion_controller_factory(factory);
    }
    if let Some(file) = qlog(role) {
        let mut log = QlogConfig::default();
        log.writer(Box::new(file));
        config.qlog_stream(log.into_stream());
    }
    Arc::new(config)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let (address, role) = arguments();
    let (transport, certificate) = (transport(&role), CertificateDer::from_pem_slice(CERTIFICATE.as_bytes())?);
    if let Role::Get(bytes) = role {
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
        let connection = Endpoint::client(own_address())?
            .connect_with(config.transport_config(transport).clone(), address, NAME)?
            .await?;
        let (mut request, mut answer) = connection.open_bi().await?;
        request.write_all(&bytes.to_be_bytes()).await?;
        request.finish()?;
        let mut left = bytes;
        while let Some(chunk) = answer.read_chunk(usize::MAX, true).await? {
            left -= chunk.bytes.len() as u64;
        }
        return if left == 0 { Ok(()) } else { Err(format!("{left} bytes are missing").into()) };
    }
    let mut config = ServerConfig::with_single_cert(vec![certificate], PrivateKeyDer::from_pem_slice(KEY.as_bytes())?)?;
    let endpoint = Endpoint::server(config.transport_config(transport).clone(), address)?;
    let connection = endpoint.accept().await.ok_or("no connection")?.await?;
    let (mut answer, mut request) = connection.accept_bi().await?;
    let mut left = [0; 8];
    request.read_exact(&mut left).await?;
    let mut left = u64::from_be_bytes(left);
    while left > 0 {
        left -= answer.write(&DATA[..DATA.len().min(left.try_into()?)]).await? as u64;
    }
    answer.finish()?;
    connection.closed().await;
    Ok(())
}
