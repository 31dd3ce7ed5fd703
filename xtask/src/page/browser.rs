//! A Chromium without a window, asked in its DevTools protocol: JSON texts that end with a zero byte, through two pipes.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The browser reads the protocol from file 3 and writes it to file 4.
const PIPES: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

/// A browser with one page; it ends with this value.
pub(super) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    sent: u64,
    session: Option<String>,
}

impl Browser {
    /// Opens an address; what it keeps of a user lies in the folder.
    pub(super) fn open(program: &Path, folder: &Path, address: &str) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("{} could not be started: {e}", program.display());
        let mut child = Command::new("sh")
            .args(["-c", PIPES])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", folder.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (to, from) = to.zip(from).ok_or("the browser has no pipes")?;
        let mut browser = Self { child, to, from: BufReader::new(from), sent: 0, session: None };
        let target = browser.ask("Target.createTarget", &json!({"url": "about:blank"}))?;
        let of = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", &of)?;
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        let opened = browser.ask("Page.navigate", &json!({"url": address}))?;
        if let Some(why) = opened["errorText"].as_str() {
            return Err(format!("{address}: {why}"));
        }
        Ok(browser)
    }

    /// What an expression of the page's script, or its promise, comes to.
    pub(super) fn value(&mut self, expression: &str) -> Result<Value, String> {
        let of = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.ask("Runtime.evaluate", &of)?;
        match answer.get("exceptionDetails") {
            Some(why) => Err(format!("the page's script failed: {why}")),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Sends a command and waits for its answer.
    fn ask(&mut self, method: &str, parameters: &Value) -> Result<Value, String> {
        let failed = |e: std::io::Error| format!("the browser: {e}");
        self.sent += 1;
        let mut command = json!({"id": self.sent, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{command}\0").as_bytes()).map_err(failed)?;
        self.to.flush().map_err(failed)?;
        // Events come between answers.
        loop {
            let mut text = Vec::new();
            self.from.read_until(0, &mut text).map_err(failed)?;
            if text.pop().is_none() {
                return Err(format!("the browser ended before it answered {method}; is it a Chromium?"));
            }
            let mut answer: Value = serde_json::from_slice(&text)
                .map_err(|e| format!("{method}: the browser wrote no JSON: {e}"))?;
            if answer["id"] == self.sent {
                return match answer.get("error") {
                    Some(why) => Err(format!("{method}: {why}")),
                    None => Ok(answer["result"].take()),
                };
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked to close it ends its own processes; one that does not answer is ended.
        if self.ask("Browser.close", &json!({})).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
