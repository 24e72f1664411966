//! Passes the interpreter's version on as `cfg(Py_3_12)` and the like, and `cfg(dict_layout)` when the headers of the
//! interpreter agree with what `codec/layout.rs` knows of `dict`.
use std::process::Command;

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    println!("cargo::rustc-check-cfg=cfg(dict_layout)");
    println!("cargo::rerun-if-changed=layout.c");
    if let Some(folder) = headers() {
        if agree(&folder) {
            println!("cargo::rustc-cfg=dict_layout");
        } else {
            println!(
                "cargo::warning=dicts go through the C API: the headers in {folder} are missing or not as known"
            );
        }
    }
}

/// The folder of the interpreter's headers, where there is an interpreter to ask.
fn headers() -> Option<String> {
    let executable = pyo3_build_config::get().executable()?;
    let asked = Command::new(executable)
        .args(["-c", "import sysconfig; print(sysconfig.get_path('include'))"])
        .output()
        .ok()?;
    Some(String::from_utf8(asked.stdout).ok()?.trim().to_owned())
}

/// Compiles the assertions of `layout.c`.
fn agree(folder: &str) -> bool {
    let compiler = cc::Build::new().cargo_metadata(false).try_get_compiler();
    compiler.is_ok_and(|compiler| {
        let mut command = compiler.to_command();
        command.args(["-fsyntax-only", "-w", "-I", folder, "layout.c"]);
        command.output().is_ok_and(|output| output.status.success())
    })
}
