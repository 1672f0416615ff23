//! Runs the programs and recipes of `docs/in-process.md` as printed, each with the client packages of this repository
//! and a server of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::folder;
use crate::support::postgres::PostgresServer;
use crate::support::program::run;
use crate::walk::follow_sections;

const PAGE: &str = "docs/in-process.md";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a section of the page, with the commands by which a reader installs the package from its bare folder.
fn check_first_program(section: &str, package: &str) {
    let copy = copy_of(package);
    follow_here(&[section], &[("SOURCES", copy.path().to_str().expect("text"))], |_, _| {});
}

/// Copies the files of a package, without what builds and tests leave there.
fn copy_of(package: &str) -> TempDir {
    let copy = folder();
    let mut git = Command::new("git");
    git.current_dir(root()).args(["ls-files", "--cached", "--others", "--exclude-standard", "--", package]);
    let files = run(&mut git, "");
    assert!(!files.is_empty(), "{package} has no files");
    for file in files.lines().filter(|file| root().join(file).is_file()) {
        let to = copy.path().join(file);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(root().join(file), to).expect("copied");
    }
    copy
}

/// Runs sections of the page whose packages are installed already, with more environment variables.
fn check(sections: &[&str], settings: &[(&str, &str)]) {
    let python = root().join("clients/python");
    let python = [("PYTHONPATH", python.to_str().expect("text")), ("PYTHONDONTWRITEBYTECODE", "1")];
    follow_here(sections, &[&python, settings].concat(), install);
}

/// Runs sections of the page after its server is set up.
fn follow_here(sections: &[&str], settings: &[(&str, &str)], prepare: fn(&Path, &Path)) {
    // The walk has a home of its own, and toolchains keep their files in the user's.
    let home = |variable: &str, folder: &str| {
        std::env::var(variable).unwrap_or_else(|_| format!("{}/{folder}", std::env::var("HOME").expect("a home")))
    };
    let (cargo, rustup) = (home("CARGO_HOME", ".cargo"), home("RUSTUP_HOME", ".rustup"));
    let common = [("CARGO_HOME", cargo.as_str()), ("RUSTUP_HOME", &rustup), ("GOPROXY", "off")];
    let sections = [&["Set up a server"], sections].concat();
    follow_sections(PAGE, &sections, &["7890"], &[&common, settings].concat(), prepare);
}

/// Puts the Python and the packages of Node.js that tests use where a reader of the page has them.
fn install(folder: &Path, bin: &Path) {
    if let Some(python) = std::env::var_os("GETID_TEST_PYTHON") {
        let wrapper = bin.join("python3");
        let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", root().join(python).display());
        fs::write(&wrapper, script).expect("written");
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("to run");
    }
    let packages = folder.join("node_modules");
    fs::create_dir(&packages).expect("a folder");
    let installed = std::env::var_os("GETID_TEST_NODE_DIR").map(|dir| root().join(dir).join("node_modules"));
    let installed = installed.iter().flat_map(|dir| fs::read_dir(dir).expect("packages of Node.js"));
    for package in installed.map(|entry| entry.expect("an entry")) {
        symlink(package.path(), packages.join(package.file_name())).expect("linked");
    }
    symlink(root().join("clients/node"), packages.join("getid-client")).expect("linked");
}

#[test]
#[ignore = "needs redis-cli, and python3 3.9 or later with venv and pip"]
fn python() {
    check_first_program("Python", "clients/python");
}

#[test]
#[ignore = "needs redis-cli and a JDK, version 11 or later"]
fn java() {
    check_first_program("Java", "clients/java");
}

#[test]
#[ignore = "needs redis-cli and go"]
fn go() {
    check_first_program("Go", "clients/go");
}

#[test]
#[ignore = "needs redis-cli, and node with npm"]
fn node() {
    check_first_program("Node.js", "clients/node");
}

#[test]
#[ignore = "needs redis-cli, and a build of the Rust client"]
fn rust() {
    check_first_program("Rust", "clients/rust");
}

#[test]
#[ignore = "needs redis-cli, and python3 3.9 or later"]
fn a_user_needs_these_rights() {
    check(&["Rights"], &[]);
}

#[test]
#[ignore = "needs redis-cli, and python3 with sqlalchemy (its path in GETID_TEST_PYTHON)"]
fn sqlalchemy() {
    check(&["Recipes", "SQLAlchemy"], &[]);
}

#[test]
#[ignore = "needs redis-cli, and python3 with django (its path in GETID_TEST_PYTHON)"]
fn django() {
    check(&["Recipes", "Django"], &[]);
}

#[test]
#[ignore = "needs redis-cli, postgresql, and node with sequelize and pg (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn sequelize() {
    check(&["Sequelize"], &[("DATABASE_URL", &PostgresServer::start(&[]).url())]);
}

#[test]
#[ignore = "needs redis-cli, postgresql, and node with typeorm, typescript, @types/node and pg (GETID_TEST_NODE_DIR)"]
fn typeorm() {
    check(&["TypeORM"], &[("DATABASE_URL", &PostgresServer::start(&[]).url())]);
}

#[test]
#[ignore = "needs redis-cli, and python3 3.9 or later"]
fn tests_without_a_server() {
    check(&["Tests without a server"], &[]);
}
