//! Passes on the interpreter's version as `cfg(Py_3_12)` and the like, and `cfg(dict_layout)` if the interpreter's
//! headers agree with the structures of `dict` in `codec/layout.rs`.
use std::process::Command;

/// Names the folder of headers for a wheel of another system, whose interpreter cannot run here: the headers of the
/// same version on this machine. The structures are the same on all 64-bit systems.
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

/// Returns the folder of the interpreter's headers, if it is named or an interpreter can be run.
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

/// Compiles the assertions of `layout.c`. This machine's headers are compiled with its own compiler: the target's may
/// use an older C library than these headers need, even for the same architecture.
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
