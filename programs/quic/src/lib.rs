//! What the programs of all stacks share: arguments, certificate and qlog file.
//!
//! The client asks for a number of bytes (8 bytes, big-endian) on one stream, and the server sends
//! them, as in the performance protocol of QUIC (draft-banks-quic-performance).
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::{env, fs, net::SocketAddr};

pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
pub type Outcome = Fallible<()>;

// The same in every build, so that runs repeat on other machines. They protect nothing.
pub const CERTIFICATE: &str = include_str!("../cert.pem");
pub const KEY: &str = include_str!("../key.pem");
pub const NAME: &str = "losslab";
pub const ALPN: &[u8] = b"perf";
/// Flow-control window in bytes that limits no flow.
pub const WINDOW: u32 = 1 << 30;
pub static DATA: [u8; 1 << 16] = [0; 1 << 16];

pub enum Role {
    /// Send what the client asks for, with this congestion control.
    Serve(String),
    /// Ask for this number of bytes.
    Get(u64),
}

/// Return the server's address and the role.
pub fn arguments() -> (SocketAddr, Role) {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let [role, address, last] = words[..]
        && let Ok(address) = address.parse()
    {
        match (role, last.parse()) {
            ("serve", _) => return (address, Role::Serve(last.into())),
            ("get", Ok(bytes)) => return (address, Role::Get(bytes)),
            _ => (),
        }
    }
    refuse("usage: serve ADDRESS:PORT CC | get ADDRESS:PORT BYTES")
}

/// Restart the program so that BoringSSL or AWS-LC draws random numbers from the kernel, whose generator has the run's seed, and
/// not from the CPU (RDRAND).
pub fn draw_from_kernel() -> Outcome {
    if env::var_os("OPENSSL_ia32cap").is_none() {
        Err(Command::new(env::current_exe()?).args(env::args_os().skip(1)).env("OPENSSL_ia32cap", "~0x4000000000000000").exec())?;
    }
    Ok(())
}

/// Return a tokio runtime that has only this thread, so that runs repeat.
#[cfg(feature = "tokio")]
pub fn one_thread() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Return the local address of a client: `$RECEIVER`, which losslab sets, and any port.
pub fn own_address() -> SocketAddr {
    let address = env::var("RECEIVER").unwrap_or("0.0.0.0".into());
    format!("{address}:0").parse().unwrap_or_else(|_| refuse("RECEIVER must be an address"))
}

/// Open the qlog file of a role if `$QLOGDIR` asks for it.
pub fn qlog(role: &Role) -> Option<fs::File> {
    let name = if matches!(role, Role::Get(_)) { "client" } else { "server" };
    let path = format!("{}/{name}.sqlog", env::var("QLOGDIR").ok()?);
    Some(fs::File::create(&path).unwrap_or_else(|error| refuse(&format!("{path}: {error}"))))
}

pub fn refuse(why: &str) -> ! {
    eprintln!("{why}");
    exit(2)
}
