//! Tells the program the versions of its driver, from the lock file, and of its compiler.

use std::process::Command;

fn main() {
    let lock = std::fs::read_to_string("Cargo.lock").expect("Cargo.lock beside Cargo.toml");
    let mut lines = lock.lines().skip_while(|line| *line != "name = \"mongodb\"");
    let version = lines.nth(1).and_then(|line| line.split('"').nth(1)).unwrap_or("unknown");
    println!("cargo:rustc-env=DRIVER={version}");
    let told = Command::new(std::env::var("RUSTC").unwrap()).arg("--version").output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    println!("cargo:rustc-env=RUSTC={}", told.split(' ').nth(1).unwrap_or("unknown"));
    println!("cargo:rerun-if-changed=Cargo.lock");
}
