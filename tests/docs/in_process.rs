//! Runs the programs and recipes of `docs/in-process.md` as printed, each with the client packages of this repository
//! and a server of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::postgres::PostgresServer;
use crate::walk::follow_sections;

const PAGE: &str = "docs/in-process.md";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn path(below_the_root: &str) -> String {
    root().join(below_the_root).to_str().expect("text").to_owned()
}

/// Runs a section of the page, with the commands by which a reader installs the package.
fn check_first_program(section: &str) {
    follow_here(&[section], &[], |_, _| {});
}

/// Runs sections of the page whose packages are installed already, with more environment variables.
fn check(sections: &[&str], settings: &[(&str, &str)]) {
    let python = path("clients/python");
    follow_here(
        sections,
        &[&[("PYTHONPATH", python.as_str()), ("PYTHONDONTWRITEBYTECODE", "1")], settings].concat(),
        install,
    );
}

/// Runs sections of the page after its server is set up.
fn follow_here(sections: &[&str], settings: &[(&str, &str)], prepare: fn(&Path, &Path)) {
    let (sources, target) = (path(""), path("target/ci/rust"));
    // The walk has a home of its own, and toolchains keep their files in the user's.
    let home = |variable: &str, folder: &str| {
        std::env::var(variable).unwrap_or_else(|_| format!("{}/{folder}", std::env::var("HOME").expect("a home")))
    };
    let (cargo, rustup) = (home("CARGO_HOME", ".cargo"), home("RUSTUP_HOME", ".rustup"));
    let common = [
        ("SOURCES", sources.as_str()),
        ("CARGO_HOME", &cargo),
        ("RUSTUP_HOME", &rustup),
        ("CARGO_TARGET_DIR", &target),
        ("GOPROXY", "off"),
    ];
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
    check_first_program("Python");
}

#[test]
#[ignore = "needs redis-cli and a JDK, version 11 or later"]
fn java() {
    check_first_program("Java");
}

#[test]
#[ignore = "needs redis-cli and go"]
fn go() {
    check_first_program("Go");
}

#[test]
#[ignore = "needs redis-cli, and node with npm"]
fn node() {
    check_first_program("Node.js");
}

#[test]
#[ignore = "needs redis-cli, and a build of the Rust client"]
fn rust() {
    check_first_program("Rust");
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
