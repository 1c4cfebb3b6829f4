//! Chromium without a window, driven by the protocol of its developer tools over pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nothing but the page: no profile that is there already, and nothing that asks for a network.
const OPTIONS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// A browser with one page.
pub(crate) struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last: u64,
}

impl Browser {
    /// Starts the program with a new profile in a folder.
    pub(crate) fn start(program: &str, profile: &Path) -> Result<Self, String> {
        // The browser reads commands from its file 3, and writes to its file 4.
        let shell = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
        let mut process = Command::new("sh")
            .args(["-c", shell, "sh", program])
            .args(OPTIONS)
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let (commands, output) =
            process.stdin.take().zip(process.stdout.take()).ok_or("the browser has no pipes")?;
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { continue };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self { process, commands, messages, session: None, last: 0 };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach)?;
        browser.session = attached["sessionId"].as_str().map(String::from);
        browser.call("Page.enable", json!({}))?;
        Ok(browser)
    }

    /// Sets the size of the window, and whether its reader prefers dark pages.
    pub(crate) fn become_window(&mut self, width: u32, height: u32, dark: bool) -> Result<(), String> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features).map(drop)
    }

    /// Opens a file and waits until it is loaded.
    pub(crate) fn open(&mut self, path: &Path) -> Result<(), String> {
        let answer = self.call("Page.navigate", json!({"url": format!("file://{}", path.display())}))?;
        if let Some(error) = answer["errorText"].as_str() {
            return Err(format!("{}: {error}", path.display()));
        }
        self.wait(|message| message["method"] == "Page.loadEventFired").map(drop)
    }

    /// The value of an expression in the page, after its promise has resolved.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Result<Value, String> {
        let what = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", what)?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(format!("in the page: {details}")),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// The content of the window, as PNG in base 64.
    pub(crate) fn screenshot(&mut self) -> Result<String, String> {
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"}))?;
        answer["data"].as_str().map(String::from).ok_or_else(|| "no screenshot".to_string())
    }

    fn call(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        self.last += 1;
        let id = self.last;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let written = self.commands.write_all(format!("{message}\0").as_bytes());
        written.map_err(|error| format!("the browser is gone ({error})"))?;
        let mut answer = self.wait(|message| message["id"] == id)?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {error}")),
            None => Ok(answer["result"].take()),
        }
    }

    /// The next message that `is_it` accepts; others are skipped.
    fn wait(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<Value, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(message) if is_it(&message) => return Ok(message),
                Ok(_) => {}
                Err(error) => return Err(format!("the browser does not answer ({error})")),
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        // It ends its children too. If it does not answer, it is killed.
        if self.call("Browser.close", json!({})).is_err() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}
