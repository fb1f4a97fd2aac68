//! quinn, with the crypto of ring, which draws all random numbers from the kernel.
use bytes::Bytes;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use quinn::rustls::{self, RootCertStore};
use quinn::{ClientConfig, Endpoint, QlogConfig, ServerConfig, TransportConfig};
use stacks::{ALPN, CERTIFICATE, DATA, KEY, NAME, Outcome, Role, WINDOW, arguments, one_thread, own_address, qlog, refuse};
use std::{net::SocketAddr, sync::Arc};

fn transport(role: &Role) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.stream_receive_window(WINDOW.into()).receive_window(WINDOW.into()).send_window(WINDOW.into());
    config.enable_segmentation_offload(false);
    if let Some(file) = qlog(role) {
        let mut log = QlogConfig::default();
        log.writer(Box::new(file)).title(Some(NAME.into()));
        config.qlog_stream(log.into_stream());
    }
    if let Role::Serve(algorithm) = role {
        let factory: Arc<dyn ControllerFactory + Send + Sync> = match algorithm.as_str() {
            "cubic" => Arc::new(CubicConfig::default()),
            "reno" => Arc::new(NewRenoConfig::default()),
            "bbr" => Arc::new(BbrConfig::default()),
            _ => refuse("CC must be cubic, reno or bbr"),
        };
        config.congestion_controller_factory(factory);
    }
    Arc::new(config)
}

async fn serve(address: SocketAddr, transport: Arc<TransportConfig>) -> Outcome {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes())?;
    let mut tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key)?;
    tls.alpn_protocols = vec![ALPN.into()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport);
    let endpoint = Endpoint::server(config, address)?;
    let connection = endpoint.accept().await.ok_or("no client")?.await?;
    let (mut sending, mut receiving) = connection.accept_bi().await?;
    let mut request = [0; 8];
    receiving.read_exact(&mut request).await?;
    let mut left = u64::from_be_bytes(request);
    while left > 0 {
        let size = DATA.len().min(left.try_into()?);
        sending.write_chunk(Bytes::from_static(&DATA[..size])).await?;
        left -= size as u64;
    }
    sending.finish()?;
    connection.closed().await;
    Ok(())
}

async fn get(address: SocketAddr, bytes: u64, transport: Arc<TransportConfig>) -> Outcome {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE.as_bytes())?)?;
    let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.into()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport);
    let endpoint = Endpoint::client(own_address())?;
    let connection = endpoint.connect_with(config, address, NAME)?.await?;
    let (mut sending, mut receiving) = connection.open_bi().await?;
    sending.write_all(&bytes.to_be_bytes()).await?;
    sending.finish()?;
    let mut left = bytes;
    while let Some(chunk) = receiving.read_chunk(usize::MAX, true).await? {
        left -= chunk.bytes.len() as u64;
    }
    connection.close(0u8.into(), b"");
    endpoint.wait_idle().await;
    if left == 0 { Ok(()) } else { Err(format!("{left} bytes are missing").into()) }
}

fn main() -> Outcome {
    let (address, role) = arguments();
    let transport = transport(&role);
    one_thread()?.block_on(async {
        match role {
            Role::Serve(_) => serve(address, transport).await,
            Role::Get(bytes) => get(address, bytes, transport).await,
        }
    })
}
