//! Make the certificate and the key of the servers.
use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::var("OUT_DIR")?;
    let made = rcgen::generate_simple_self_signed([String::from("losslab")])?;
    fs::write(Path::new(&folder).join("cert.pem"), made.cert.pem())?;
    fs::write(Path::new(&folder).join("key.pem"), made.signing_key.serialize_pem())?;
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
