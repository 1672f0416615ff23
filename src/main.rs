//! stub
fn main() -> std::process::ExitCode { getid::cli::serve::run(std::env::args().skip(2).collect()) }
