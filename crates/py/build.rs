//! Passes the interpreter's version on as `cfg(Py_3_12)` and the like, and `cfg(dict_layout)` when the headers of the
//! interpreter agree with what `codec/layout.rs` knows of `dict`.
use std::process::Command;

/// Names the folder of the headers for a wheel of another system, whose interpreter cannot run here: those of the same
/// version on this machine. The structures are the same on every system of 64 bits.
const HEADERS: &str = "MANGONEL_PYTHON_HEADERS";

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    println!("cargo::rustc-check-cfg=cfg(dict_layout)");
    println!("cargo::rerun-if-changed=layout.c");
    println!("cargo::rerun-if-env-changed={HEADERS}");
    let Some(folder) = headers() else {
        println!(
            "cargo::warning=dicts go through the C API: no interpreter to ask for headers, and no {HEADERS}"
        );
        return;
    };
    if agree(&folder) {
        println!("cargo::rustc-cfg=dict_layout");
    } else {
        println!(
            "cargo::warning=dicts go through the C API: the headers in {folder} are missing or not as known"
        );
    }
}

/// The folder of the interpreter's headers, where it is named or there is an interpreter to ask.
fn headers() -> Option<String> {
    if let Ok(folder) = std::env::var(HEADERS) {
        return Some(folder);
    }
    let executable = pyo3_build_config::get().executable()?;
    let asked = Command::new(executable)
        .args(["-c", "import sysconfig; print(sysconfig.get_path('include'))"])
        .output()
        .ok()?;
    Some(String::from_utf8(asked.stdout).ok()?.trim().to_owned())
}

/// Compiles the assertions of `layout.c`. If the headers are this machine's, its own compiler does it: the target's may
/// know an older C library than these headers need, even for a machine of this kind.
fn agree(folder: &str) -> bool {
    let mut command = if std::env::var_os(HEADERS).is_some() {
        Command::new("cc")
    } else {
        match cc::Build::new().cargo_metadata(false).try_get_compiler() {
            Ok(compiler) => compiler.to_command(),
            Err(_) => return false,
        }
    };
    command.args(["-fsyntax-only", "-w", "-I", folder, "layout.c"]);
    command.output().is_ok_and(|output| output.status.success())
}
