//! Writes getid's manual pages to a folder for `packaging/man`. It is an example, so that no build of the server builds
//! it.

mod pages;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    let (Some(folder), None) = (args.next().map(PathBuf::from), args.next()) else {
        eprintln!("usage: manual FOLDER; writes the pages to FOLDER, as packaging/man does");
        return ExitCode::from(2);
    };
    match write(&folder) {
        Ok(count) => {
            println!("{count} manual pages are in {}", folder.display());
            ExitCode::SUCCESS
        }
        Err(sentence) => {
            eprintln!("manual: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &PathBuf) -> Result<usize, String> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let pages = pages::all()?;
    for page in &pages {
        let path = folder.join(page.file_name());
        fs::write(&path, &page.text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(pages.len())
}
