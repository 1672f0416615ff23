//! A client of the HTTP port that sends raw bytes and reads responses piece by piece.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::{PATIENCE, Server, free_port};

/// A server with an HTTP port.
pub struct HttpServer {
    pub server: Server,
    pub port: u16,
}

impl HttpServer {
    /// Starts a server in a new folder with these further words, and with an HTTP port on 127.0.0.1.
    pub fn start(words: &[&str]) -> HttpServer {
        HttpServer::start_at(free_port(), words)
    }

    /// Starts a server with the HTTP port `port`.
    pub fn start_at(port: u16, words: &[&str]) -> HttpServer {
        let text = port.to_string();
        let all = [&["--http-port", &text, "--http-bind", "127.0.0.1"], words].concat();
        HttpServer { server: Server::start(&all), port }
    }

    pub fn connect(&self) -> Http {
        Http::connect(self.port)
    }

    /// Sends a request without a body, such as `GET /livez`, on a new connection.
    pub fn ask(&self, line: &str) -> Response {
        self.connect().ask(line, &[], "")
    }

    /// Sends a request with these headers and this body, JSON if not empty, on a new connection.
    pub fn ask_with(&self, line: &str, headers: &[&str], body: &str) -> Response {
        self.connect().ask(line, headers, body)
    }
}

/// A connection to the HTTP port.
pub struct Http {
    pub stream: TcpStream,
    rest: Vec<u8>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Headers with names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Http {
    pub fn connect(port: u16) -> Http {
        Http::on(TcpStream::connect(("127.0.0.1", port)).expect("connected"))
    }

    /// Wraps an open connection.
    pub fn on(stream: TcpStream) -> Http {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Http { stream, rest: Vec::new() }
    }

    /// Sends a request: its line without the version, further headers, and a body. Returns the response.
    pub fn ask(&mut self, line: &str, headers: &[&str], body: &str) -> Response {
        self.send(request(line, headers, body).as_bytes());
        self.response()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// Reads the next response.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.try_response().expect("a response")
    }

    /// Reads the next response, or returns the error.
    pub fn try_response(&mut self) -> io::Result<Response> {
        let mut response = self.head()?;
        if matches!(response.status, 204 | 304) {
            return Ok(response);
        }
        response.body = self.body(&response)?;
        Ok(response)
    }

    /// Reads the body behind a head.
    pub fn body(&mut self, response: &Response) -> io::Result<Vec<u8>> {
        if response.header("transfer-encoding") == Some("chunked") {
            let mut body = Vec::new();
            while let Some(chunk) = self.chunk()? {
                body.extend(chunk);
            }
            Ok(body)
        } else {
            let length = response.header("content-length").map_or(0, |length| length.parse().expect("a length"));
            self.take(length)
        }
    }

    /// Reads a response up to the end of its head; [`Http::chunk`] reads the rest.
    pub fn head(&mut self) -> io::Result<Response> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect(&line);
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Response { status, headers, body: Vec::new() })
    }

    /// Reads the next chunk of a chunked body; `None` after the last.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let length = usize::from_str_radix(&line, 16).expect(&line);
        let chunk = self.take(length)?;
        self.line()?;
        Ok((length > 0).then_some(chunk))
    }

    /// Returns true if the server closes without another byte, if need be with a reset because of unread bytes.
    pub fn is_closed(&mut self) -> bool {
        let ended = match super::read(&mut self.stream, &mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        };
        self.rest.is_empty() && ended
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.rest.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&self.rest[..end]).into_owned();
                self.rest.drain(..end + 2);
                return Ok(line);
            }
            self.more()?;
        }
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.rest.len() < length {
            self.more()?;
        }
        Ok(self.rest.drain(..length).collect())
    }

    fn more(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        match super::read(&mut self.stream, &mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.rest.extend_from_slice(&bytes[..read]);
                Ok(())
            }
        }
    }
}

/// Encodes a request: its line without the version, further headers, and a body, JSON unless the headers name another
/// type.
pub fn request(line: &str, headers: &[&str], body: &str) -> String {
    let has = |name: &str| headers.iter().any(|header| header.to_ascii_lowercase().starts_with(name));
    let mut lines = vec![format!("{line} HTTP/1.1")];
    if !has("host:") {
        lines.push("Host: localhost".to_owned());
    }
    lines.extend(headers.iter().map(|&header| header.to_owned()));
    if !body.is_empty() && !has("content-type:") {
        lines.push("Content-Type: application/json".to_owned());
    }
    if (!body.is_empty() || line.starts_with('P')) && !has("content-length:") && !has("transfer-encoding:") {
        lines.push(format!("Content-Length: {}", body.len()));
    }
    format!("{}\r\n\r\n{body}", lines.join("\r\n"))
}
