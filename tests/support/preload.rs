//! Preloaded layers of `tests/support/preload` between a server and the system.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Layers that this process has compiled, by name.
static COMPILED: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// Compiles `tests/support/preload/NAME.c` into `dir` for `LD_PRELOAD`, and returns its path.
pub(crate) fn layer(dir: &Path, name: &str) -> PathBuf {
    let layer = dir.join(format!("{name}.so"));
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = compiled.get(name) {
        fs::write(&layer, bytes).expect("a layer");
        return layer;
    }
    let source = format!("{}/tests/support/preload/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler).args(["-shared", "-fPIC", "-O1", "-o"]).arg(&layer).arg(source).output();
    let output = output.expect("a C compiler, which the build needs too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    compiled.insert(name.to_owned(), fs::read(&layer).expect("a layer"));
    layer
}
