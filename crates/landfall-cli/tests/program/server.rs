//! A server that a test starts, and requests to it.

use super::Folder;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// A server, which ends with the test.
pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) address: String,
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
    /// What a refusal says.
    pub(crate) fn error(&self) -> String {
        let object = self.json();
        assert_eq!(object["status"], self.code, "{object}");
        object["error"].as_str().expect("a text").to_owned()
    }
}

impl Server {
    pub(crate) fn start(f: &Folder, words: &str) -> Self {
        let mut command = f.command(&format!("serve {words} --port 0 --device cpu --threads 2"));
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let address = line.trim().rsplit_once("http://").expect("an address").1.to_owned();
        Self { process, address }
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(bytes).expect("sent");
        let mut text = Vec::new();
        stream.read_to_end(&mut text).expect("an answer");
        let text = String::from_utf8(text).expect("UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let code = head.split(' ').nth(1).expect("a code").parse().expect("a number");
        Answer { code, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
    }

    pub(crate) fn post(&self, path: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        self.send(&[head.as_bytes(), body.as_bytes()].concat())
    }

    pub(crate) fn csv(&self, body: &str) -> Answer {
        self.post("/forecast", "Content-Type: text/csv\r\n", body)
    }

    /// A body of several parts, by their names.
    pub(crate) fn parts(&self, headers: &str, parts: &[(&str, &str)]) -> Answer {
        let part = |(name, text): &(&str, &str)| {
            format!(
                "--edge\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"a.csv\"\r\n\r\n{text}\r\n"
            )
        };
        let body = parts.iter().map(part).collect::<String>() + "--edge--\r\n";
        let headers = format!("Content-Type: multipart/form-data; boundary=edge\r\n{headers}");
        self.post("/forecast", &headers, &body)
    }

    pub(crate) fn object(&self, body: &Value) -> Answer {
        self.post("/forecast", "Content-Type: application/json\r\n", &body.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
