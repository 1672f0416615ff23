//! The command line as used in a shell: output, exit codes, pipes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use tempfile::TempDir;

use crate::support::program::{PATIENCE, finish};

pub(crate) fn getid(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_getid"));
    command.args(args).env_clear();
    command
}

/// Asserts the exit code, and parts of standard output and standard error. An empty part requires empty output.
#[track_caller]
pub(crate) fn check(output: &Output, code: i32, stdout: &str, stderr: &str) {
    let shown = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    for (text, part) in shown.iter().zip([stdout, stderr]) {
        assert!(if part.is_empty() { text.is_empty() } else { text.contains(part) }, "{part:?} in {shown:?}");
        assert!(!text.contains("panicked") && !text.contains('\x1b'), "{shown:?}");
    }
    assert_eq!(output.status.code(), Some(code), "{shown:?}");
}

#[track_caller]
pub(crate) fn run(args: &[&str], code: i32, stdout: &str, stderr: &str) {
    check(&getid(args).output().unwrap(), code, stdout, stderr);
}

#[test]
fn without_a_subcommand_there_is_help() {
    run(&[], 2, "", "Usage: getid <COMMAND>");
    run(&["--version"], 0, "getid 0.", "");
    run(&["frobnicate"], 2, "", "unrecognized subcommand");
    for command in ["serve", "check-config", "ping", "state", "decode"] {
        run(&[command, "--version"], 0, concat!("getid ", env!("CARGO_PKG_VERSION"), "\n"), "");
    }
    run(&["serve", "--help"], 0, "GETID_SERVER_ID=2 getid serve getid.conf", "");
    run(&["completions", "bash"], 0, "check-config", "");
}

/// Writes a shell's completions to a temporary folder, with a configuration that declares generators and the programs
/// that the shell uses.
fn completions(shell: &str, file: &str) -> (TempDir, String) {
    let script = getid(&["completions", shell]).output().unwrap().stdout;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(file), script).unwrap();
    let config = dir.path().join("getid.conf");
    std::fs::write(&config, "generator tweets twitter\ngenerator order serial ORD{n:3}\n").unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_getid")).parent().unwrap();
    let programs = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    (dir, programs)
}

#[test]
#[ignore = "needs fish"]
fn fish_completes_kinds_and_generators() {
    let (dir, programs) = completions("fish", "getid.fish");
    for (words, expected) in [
        ("getid serve --serv", "--server-id"),
        ("getid serve --loglevel ver", "verbose"),
        ("getid layout uuid7", "uuid7"),
        ("getid layout --config=getid.conf ord", "order"),
        ("getid get --config getid.conf twe", "tweets"),
        ("getid decode --config getid.conf --generator ", "tweets"),
        ("getid open --config getid.conf twe", "tweets"),
    ] {
        let ask = format!("source getid.fish; complete -C '{words}'");
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", &ask]).env("PATH", &programs).current_dir(&dir).env("HOME", dir.path());
        let output = finish(&mut fish, "", PATIENCE, false);
        let completed = String::from_utf8_lossy(&output.stdout);
        assert!(completed.lines().any(|line| line.starts_with(expected)), "{words}: {output:?}");
    }
}

/// Completes as bash does: the words after `getid serve --serv`, and after `--loglevel`.
#[test]
#[ignore = "needs bash"]
fn bash_completes_directives() {
    let (dir, programs) = completions("bash", "getid.bash");
    let (path, config) = (dir.path().join("getid.bash"), dir.path().join("getid.conf"));
    for (words, expected) in [
        ("getid serve --serv", "--server-id"),
        ("getid serve --port 7000 --shard", "--shard-range"),
        ("getid check-config --tls-cert", "--tls-cert-file"),
        ("getid serve --loglevel ver", "verbose"),
        ("getid serve --id-borrow-policy ", "wait error"),
        ("getid ben", "bench"),
        ("getid bench --svg", "--svg"),
        ("getid decode --layout disc", "discord"),
        ("getid layout uuid7", "uuid7"),
        ("getid decode --config CONFIG --generator twe", "tweets"),
        ("getid seal --config CONFIG twe", "tweets"),
    ] {
        let words = words.replace("CONFIG", config.to_str().unwrap());
        let last = words.split(' ').count() - 1;
        let ask = format!(
            "source {}; COMP_WORDS=({words}); [[ '{words}' == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD={last}; \
             _getid getid \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{last}-1]}}\"; echo \"${{COMPREPLY[@]}}\"",
            path.display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &ask]).env("PATH", &programs).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{words}: {output:?}");
    }
}

/// Output is coloured only on terminals. In this test `CLICOLOR_FORCE` replaces a terminal.
#[test]
fn verdicts_and_errors_have_colours_where_they_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let check_config = ["check-config", "--dir", dir.path().to_str().unwrap(), "--server-id", "0"];
    for (args, plain, painted) in [
        (&["decode", "x"][..], "getid: argument 1", "\x1b[1m\x1b[31mgetid:\x1b[0m argument 1"),
        (&check_config, "OK\n", "\x1b[32mOK\x1b[0m\n"),
        (&["check-config", "--port", "x"], "FATAL", "\x1b[1m\x1b[31m"),
    ] {
        let text = |variables: &[(&str, &str)]| {
            let Output { stdout, stderr, .. } = getid(args).envs(variables.iter().copied()).output().unwrap();
            String::from_utf8([stdout, stderr].concat()).unwrap()
        };
        for variables in [&[][..], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]] {
            let text = text(variables);
            assert!(text.contains(plain) && !text.contains('\x1b'), "{args:?} {variables:?}: {text:?}");
        }
        let text = text(&[("CLICOLOR_FORCE", "1")]);
        assert!(text.contains(painted), "{args:?}: {text:?}");
    }
}

#[test]
fn decode_prints_the_fields_of_an_id() {
    let table = "                 id time (UTC)                     unix_ms server shard random
 144182182078841378 2017-03-06T09:37:01.966Z 1488793021966      0     0    546
 144182328657192148 2017-03-06T09:38:11.860Z 1488793091860      0     9    212
";
    run(&["decode", "144182182078841378", "144182328657192148"], 0, table, "");
    let json = r#"{"id":"144182328657192148","time":"2017-03-06T09:38:11.860Z","unix_ms":1488793091860,"server_id":0,"shard":9,"random":212}"#;
    run(&["decode", "--json", "144182328657192148"], 0, &format!("{json}\n"), "");
    // The other arguments are still decoded.
    run(&["decode", "5x", "-1", "", "144182328657192148"], 1, "2017-03-06T09:38:11.860Z", "argument 2: '-1' is no ID");
    // Kinds of 64 bits read it.
    run(&["decode", "9223372036854775808"], 0, "2046-06-27T17:00:49.497Z", "");
    run(&["decode", "9x"], 1, "", "argument 1: '9x' is no ID");
    run(&["decode", "9223372036854775807"], 0, "2154-05-14T23:35:11.103Z", "");
}

#[test]
fn decode_reads_standard_input() {
    let input = "144182182078841378\n\n 144182328657192148\tabc\r\n\u{1b}2J\n";
    let output = finish(&mut getid(&["decode"]), input, PATIENCE, false);
    check(&output, 1, "144182328657192148 2017-03-06T09:38:11.860Z", "line 3: 'abc' is no ID");
    check(&output, 1, "2017-03-06T09:37:01.966Z", r"line 4: '\u{1b}2J' is no ID");
    check(&finish(&mut getid(&["decode", "1", "-"]), "2", PATIENCE, false), 0, " 2 2014-12-31", "");
    check(&finish(&mut getid(&["decode", "--json"]), "", PATIENCE, false), 0, "", "");
}

#[test]
fn decode_accepts_pasted_text() {
    let two = "144182182078841378 2017-03-06T09:37:01.966Z 1488793021966      0     0    546
 144182328657192148 2017-03-06T09:38:11.860Z 1488793091860      0     9    212
";
    for input in [
        "144182182078841378,144182328657192148\n",
        "\"144182182078841378\",\"144182328657192148\"\r\n",
        "[\"144182182078841378\", 144182328657192148]",
        "1) \"144182182078841378\"\n2) \"144182328657192148\"\n",
        "(integer) 144182182078841378\n(integer) 144182328657192148\n",
        // A column with its head, as mysql, psql and CSV print it.
        "+----+\n| id |\n+----+\n| 144182182078841378 |\n| 144182328657192148 |\n+----+\n",
        "      order_id      \n--------------------\n 144182182078841378\n 144182328657192148\n",
        "ID\n144182182078841378\n144182328657192148\n",
    ] {
        check(&finish(&mut getid(&["decode"]), input, PATIENCE, false), 0, two, "");
        run(&["decode", input], 0, two, "");
    }
    // A line of a million IDs is read in parts. In a line of a million mistakes, only the first 20 are reported.
    let array = format!("[{}]", vec!["\"144182182078841378\""; 10_000].join(","));
    let output = finish(&mut getid(&["decode", "--json"]), &array, PATIENCE, false);
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).lines().count()), (Some(0), 10_000));
    let output = finish(&mut getid(&["decode"]), &"x y z ".repeat(10_000), PATIENCE, false);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.starts_with("getid: line 1: 'x' is no ID: must be 0 to 9223372036854775807"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let output = finish(&mut getid(&["decode"]), &"x\n".repeat(10_000), PATIENCE, false);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(errors.lines().count(), 21, "{errors}");
    assert!(errors.ends_with("getid: 9,980 mistakes more, which are not listed\n"), "{errors}");
    let output = finish(&mut getid(&["decode"]), "7.868e+17\n(error) BUSY \u{1b}[31mlater\n", PATIENCE, false);
    check(&output, 1, "", "line 1: '7.868e+17' is no ID: it was rounded on its way");
    check(&output, 1, "", r"line 2: no ID but an error of the server: BUSY \u{1b}[31mlater");
}

#[test]
fn decode_fits_eighty_columns_under_every_layout() {
    for (server, shard) in [(0, 0), (21, 0), (0, 21), (7, 7), (2, 9), (1, 19), (10, 11)] {
        let ranges = [server, shard, 21 - server - shard].map(|bits: u32| bits.to_string());
        let [a, b, c] = ranges.each_ref();
        let flags = ["decode", "--id-range", a, "--shard-range", b, "--random-range", c, "9223372036854775807"];
        let output = getid(&flags).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert!(widths.len() == 2 && widths[0] == widths[1] && widths[0] <= 80, "{widths:?}\n{text}");
    }
}

#[test]
fn the_layout_comes_from_flags_a_file_or_the_environment() {
    let id = "144182328657192148";
    let flags =
        ["decode", "--json", "--id-range", "0", "--shard-range", "0", "--random-range", "21", "--epoch", "0", id];
    run(
        &flags,
        0,
        r#""time":"1972-03-06T17:38:11.860Z","unix_ms":68751491860,"server_id":0,"shard":0,"random":9428"#,
        "",
    );
    run(&["decode", "--id-range", "3", id], 1, "", "id-range + shard-range + random-range is 22, must be 21");
    run(&["decode", "--epoch", "-5", id], 1, "", "--epoch -5: must be Unix ms 0 to");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("getid.conf");
    std::fs::write(&file, "id-generator server-id 0 id-range 2 shard-range 10 random-range 9\n").unwrap();
    let file = file.to_str().unwrap();
    run(&["decode", "--json", "--config", file, id], 0, r#""shard":18,"random":212"#, "");
    run(&["decode", "--config", "/nonexistent.conf", id], 1, "", "/nonexistent.conf");
    let mut command = getid(&["decode", "--json", id]);
    command.env("GETID_SHARD_RANGE", "10").env("GETID_RANDOM_RANGE", "9");
    check(&command.output().unwrap(), 0, r#""shard":18,"random":212"#, "");
}

#[test]
fn a_closed_pipe_ends_decode_quietly() {
    let mut child =
        getid(&["decode"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The thread ends with the child process.
    let feeder = thread::spawn(move || while stdin.write_all(b"144182328657192148\n").is_ok() {});
    let mut start = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn span_gives_the_ids_of_a_time() {
    let text = "from     2017-03-06T09:37:01.966Z
to       2017-03-06T09:38:11.860Z
lowest   144182182078840832
highest  144182328659279871
";
    run(&["span", "1488793021966", "2017-03-06T17:38:11.860+08:00"], 0, text, "");
    run(&["span", "0", "0", "--epoch", "0", "--json"], 0, r#""lowest":"0","highest":"2097151"}"#, "");
    run(&["span", "2010-01-01T00:00:00Z", "0"], 1, "", "FROM 2010-01-01T00:00:00.000Z lies before the epoch");
    run(&["span", "1488793021966", "2200-01-01T00:00:00Z"], 1, "", "TO 2200-01-01T00:00:00.000Z lies past 2154-05-14");
    run(&["span", "1488793021967", "1488793021966"], 1, "", "is later than TO");
    run(&["span", "yesterday", "today"], 1, "", "FROM: 'yesterday' is not a time");
    run(&["span", "-1", "5"], 1, "", "before the epoch");
    run(
        &["span", "1488793021", "1488793022"],
        1,
        "",
        "no ID is that old; as seconds it would be 2017-03-06T09:37:01.000Z",
    );
    let day = "from     2017-03-06T00:00:00.000Z\nto       2017-03-06T12:30:00.000Z\n";
    run(&["span", "2017-03-06", "2017-03-06 12:30"], 0, day, "");
    run(&["span", "2017-03-06 08:00+08:00", "2017-03-06 13:30:00 +01:00"], 0, day, "");
    run(&["span", "2017-03-06", "now"], 0, "from     2017-03-06T00:00:00.000Z", "");
    run(&["span", "now", "2017-03-06"], 1, "", "is later than TO 2017-03-06T00:00:00.000Z");
    run(&["span", "2017-03-06", "2017-03-07", "--epoch", "2017-01-01"], 0, "lowest   11596411699200000", "");
    run(&["span", "2017-03-06", "2017-03-07", "--epoch", "now"], 1, "", "--epoch: 'now' is another time at each start");
    run(&["span", "5"], 2, "", "<TO>");
}

#[test]
fn check_config_reports_ok_or_the_errors() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    let check_config = |words: &[&str], code: i32, stdout: &str, stderr: &str| {
        let output = getid(&["check-config"]).args(words).env("GETID_DIR", folder).output().unwrap();
        check(&output, code, stdout, stderr);
    };
    check_config(&["config/getid.conf", "--port", "7000"], 0, "OK\nlistens on 127.0.0.1:7000", "");
    check_config(
        &["config/getid.toml", "--unixsocket", "/tmp/s", "--port", "0"],
        0,
        "listens on unix socket /tmp/s",
        "",
    );
    check_config(&["--config", "config/getid.conf", "--server-id", "2"], 0, "\nserver-id 2, id-range 2 ", "");
    check_config(&["config/getid.conf", "--id-range", "3"], 1, "", "must be 21");
    // As at a start, two commands cannot have one name.
    check_config(&["config/getid.conf", "--rename-command", "PING", "GETID"], 1, "", "'GETID' is already a command");
    check_config(&["/nonexistent.conf"], 1, "", "/nonexistent.conf");
    check_config(&["config/getid.conf", "--config", "x.conf"], 1, "", "--config FILE");
    check_config(&["config/getid.conf", "--save", ""], 0, "warning: command line: save: accepted", "");
    // Without a file, the environment is the configuration.
    check_config(
        &[],
        0,
        &format!(
            "OK\nlistens on 127.0.0.1:7890, [::1]:7890 if this address exists\nserver-id 0, \
        id-range 2 shard-range 9 random-range 10\nstate in {folder}\nsequences in sqlite: (--connect"
        ),
        "",
    );
    check_config(&[], 0, "warning: server-id was never set", "");
    let output = getid(&["check-config"]).env("GETID_PORT", "x").output().unwrap();
    check(&output, 1, "", "*** FATAL CONFIGURATION ERROR ***\nReading the environment\n>>> 'GETID_PORT=x'");
}

#[test]
fn check_config_reports_the_errors_of_a_start_in_state_and_log() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    std::fs::write(dir.path().join("getid-0.state"), "getid state 4\nkind time\n").unwrap();
    for words in [&["--server-id", "0"][..], &["--server-id", "1", "--logfile", "no/such.log"]] {
        let words = [&["--dir", folder, "--port", "0", "--unixsocket", "s"], words].concat();
        let errors_of = |command: &str| {
            // Another server on this machine may use the server-id.
            let output = getid(&[command]).args(&words).env("GETID_ID_MACHINE_CLAIM", "no").output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{command}: {output:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        let (start, check) = (errors_of("serve"), errors_of("check-config"));
        // A start prints no heading in this case.
        assert_eq!(start.trim_end(), check.trim_start_matches("*** FATAL CONFIGURATION ERROR ***").trim());
        assert_eq!(words.contains(&"0") && !words.contains(&"1"), check.contains("cannot use the record"), "{check}");
    }
    assert!(!dir.path().join("no").exists());
    run(&["check-config", "--dir", folder, "--server-id", "1", "--logfile", "getid.log"], 0, "OK\n", "");
    run(
        &["check-config", "--dir", folder, "--server-id", "1", "--maxclients", "4000000000"],
        0,
        "maxclients 4000000000 needs more",
        "",
    );
    assert!(!dir.path().join("getid.log").exists());
}

#[test]
fn check_config_checks_the_folder_and_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("new");
    let shown = new.to_str().unwrap();
    run(&["check-config", "--dir", shown], 0, &format!("state in {shown}, which will be made"), "");
    // A path relative to a missing folder cannot exist.
    run(
        &["check-config", "--dir", shown, "--aclfile", "users.acl"],
        1,
        "",
        &format!("{shown}/users.acl' cannot be read"),
    );
    assert!(!new.exists());
    run(&["check-config", "--dir", "/nonexistent/getid"], 1, "", "its parent folder '/nonexistent' does not exist");
    run(&["check-config", "--id-state", "none"], 0, "no state is kept", "");
}

/// Starts a server that sends one line of `reply` for each request.
fn reply_server(reply: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 256];
        for line in reply.split_inclusive('\n') {
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(line.as_bytes()).unwrap();
        }
        // The stream stays open until the client has read the reply.
        while stream.read(&mut request).is_ok_and(|read| read > 0) {}
    });
    port
}

#[track_caller]
fn ping(reply: &'static str, args: &[&str], code: i32, stdout: &str, stderr: &str) {
    let port = reply_server(reply).to_string();
    run(&[&["ping", "--port", &port, "--timeout-ms", "20000"], args].concat(), code, stdout, stderr);
}

#[test]
fn ping_expects_a_pong() {
    ping("+PONG\r\n", &[], 0, ": PONG in ", "");
    ping("+OK\r\n+PONG\r\n", &["--password", "x"], 0, ": PONG in ", "");
    ping(
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n-NOAUTH x\r\n",
        &["--password", "x"],
        1,
        "",
        "WRONGPASS",
    );
    // The server is alive, although it refuses the command.
    ping("-NOAUTH Authentication required.\r\n", &[], 0, "alive, requires a password", "");
    ping("-NOPERM x\r\n", &[], 0, "alive", "");
    ping("-DENIED protected mode\r\n", &[], 1, "", "DENIED protected mode");
    ping("+HELLO\r\n", &[], 1, "", "'+HELLO' instead of PONG");
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    run(&["ping", "--port", &unused], 1, "", "refused");
    // `--ids` asks whether IDs are given: any reply except READY means no.
    ping("+READY\r\n", &["--ids"], 0, ": READY, gives IDs in ", "");
    ping("+OK\r\n+READY\r\n", &["--ids", "--password", "x"], 0, ": READY", "");
    ping("-MISCONF state can't be saved: x\r\n", &["--ids"], 1, "", "MISCONF state can't be saved: x");
    for no in ["-NOAUTH x\r\n", "-NOPERM x\r\n", "-ERR unknown command 'IDREADY'\r\n", "+PONG\r\n"] {
        ping(no, &["--ids"], 1, "", no.trim_start_matches(['-', '+']).trim_end());
    }
}

#[test]
fn ping_finds_the_server_of_its_environment() {
    let port = reply_server("+PONG\r\n").to_string();
    check(&getid(&["ping"]).env("GETID_PORT", port).output().unwrap(), 0, "PONG", "");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 14];
            stream.read_exact(&mut request).unwrap();
            assert_eq!(&request, b"*1\r\n$4\r\nPING\r\n");
            stream.write_all(b"+PONG\r\n").unwrap();
        }
    });
    let output = getid(&["ping"]).env("GETID_PORT", "0").env("GETID_UNIXSOCKET", &path).output().unwrap();
    check(&output, 0, "sock: PONG", "");
    run(&["ping", "--unixsocket", path.to_str().unwrap()], 0, "sock: PONG", "");
    check(&getid(&["ping"]).env("GETID_PORT", "x").output().unwrap(), 1, "", "GETID_PORT is 'x'");
    check(&getid(&["ping"]).env("GETID_PORT", "0").output().unwrap(), 1, "", "by --port or --unix");
}
