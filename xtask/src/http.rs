//! As much of an HTTP client as the campaign and the load generator need: they write requests by hand, right and wrong ones.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

/// A response.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Vec<u8>,
}

/// Reads one response; `None` where the connection ended before one began.
///
/// # Errors
/// What is no HTTP, or no whole response, in words.
pub(crate) fn read(reader: &mut BufReader<TcpStream>) -> Result<Option<Answer>, String> {
    let mut line = String::new();
    match reader.read_line(&mut line) {
        Ok(0) => return Ok(None),
        Err(why) if why.kind() == std::io::ErrorKind::ConnectionReset => return Ok(None),
        Err(why) => return Err(format!("no status line: {why}")),
        Ok(_) => {}
    }
    let code =
        line.split(' ').nth(1).and_then(|c| c.parse().ok()).ok_or_else(|| format!("status line {line:?}"))?;
    let mut length = 0usize;
    loop {
        line.clear();
        reader.read_line(&mut line).map_err(|why| format!("a header: {why}"))?;
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(|e| format!("{header}: {e}"))?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).map_err(|why| format!("a body of {length} bytes: {why}"))?;
    Ok(Some(Answer { code, body }))
}

/// A request with a body, ready to be written.
pub(crate) fn post(path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
