//! A real browser, driven through its DevTools protocol: pages are opened, clicked and looked at as a person would.
//!
//! The protocol goes through two pipes (`--remote-debugging-pipe`), a JSON text each way that ends with a zero byte. Whatever the
//! page logs, throws or asks of a network is kept, so that a test can say that there was none of it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser that does not answer for so long hangs. Generous: the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(90);

/// Names under which a browser is found on `PATH`.
const NAMES: &[&str] = &[
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
];

/// The browser: that of `R3_BROWSER`, else the first one on `PATH`. `None` where there is none.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("R3_BROWSER").filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
}

/// A page in a browser of its own.
pub struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: String,
    next: u64,
    events: VecDeque<Value>,
    /// Addresses that the page asked for, itself included.
    pub asked: Vec<String>,
    /// What the page logged, threw, or was refused.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

/// A pipe: the end to read from and the end to write to.
fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: the call writes two descriptors to an array of two.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(made, 0, "a pipe: {}", std::io::Error::last_os_error());
    // SAFETY: both were made above and belong to nobody else.
    unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) }
}

impl Browser {
    /// Starts a browser with an empty page of a size.
    pub fn start(program: &Path, width: u32, height: u32) -> Self {
        let profile = TempDir::with_prefix("r3-browser-").expect("a temporary directory");
        let (theirs_in, ours_out) = pipe();
        let (ours_in, theirs_out) = pipe();
        let (read, write) = (theirs_in.as_raw_fd(), theirs_out.as_raw_fd());
        let mut command = Command::new(program);
        command
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--no-first-run",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let install = move || {
            // The browser reads from descriptor 3 and writes to 4, which ours may have been before: so they are moved away first.
            // SAFETY: these calls are allowed between fork and exec, and work on descriptors that are open.
            unsafe {
                let away = |fd| libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 16);
                let (read, write) = (away(read), away(write));
                if read < 0 || write < 0 || libc::dup2(read, 3) < 0 || libc::dup2(write, 4) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        };
        // SAFETY: what runs between fork and exec allocates nothing and takes no lock.
        unsafe { command.pre_exec(install) };
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        drop((theirs_in, theirs_out));
        let mut browser = Self {
            child,
            to: File::from(ours_out),
            from: messages(File::from(ours_in)),
            session: String::new(),
            next: 0,
            events: VecDeque::new(),
            asked: Vec::new(),
            complaints: Vec::new(),
            _profile: profile,
        };
        let made = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({ "targetId": made["targetId"], "flatten": true }),
        );
        browser.session = attached["sessionId"]
            .as_str()
            .expect("a session")
            .to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        );
        browser
    }

    /// Opens a file and waits until all of it is there.
    pub fn open(&mut self, page: &Path) {
        let address = format!("file://{}", page.display());
        self.call("Page.navigate", json!({ "url": address }));
        self.wait_for("Page.loadEventFired");
    }

    /// Whether the page is to be light or dark.
    pub fn prefer(&mut self, scheme: &str) {
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
    }

    /// Asks for something and waits for the answer.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        let until = Instant::now() + PATIENCE;
        loop {
            let message = self.receive(until, method);
            if message["id"] == json!(id) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push_back(message);
        }
    }

    fn wait_for(&mut self, event: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            while let Some(message) = self.events.pop_front() {
                if message["method"] == event {
                    return;
                }
            }
            let message = self.receive(until, event);
            self.events.push_back(message);
        }
    }

    fn receive(&mut self, until: Instant, what: &str) -> Value {
        let left = until.saturating_duration_since(Instant::now());
        let message = match self.from.recv_timeout(left) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("{what}: the browser does not answer"),
            Err(RecvTimeoutError::Disconnected) => panic!("{what}: the browser is gone"),
        };
        self.note(&message);
        message
    }

    /// Keeps what a page must not do.
    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                let address = &parameters["request"]["url"];
                self.asked
                    .push(address.as_str().unwrap_or_default().to_owned());
            }
            "Runtime.exceptionThrown" => self
                .complaints
                .push(parameters["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled" => self.complaints.push(parameters["args"].to_string()),
            "Log.entryAdded" => self.complaints.push(parameters["entry"].to_string()),
            _ => {}
        }
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let found = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    /// The text of the first element that a selector finds.
    pub fn text(&mut self, selector: &str) -> String {
        let value = self.value(&format!(
            "document.querySelector({})?.textContent ?? ''",
            json!(selector)
        ));
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until something is true: what a click sets off may come after it.
    pub fn wait_until(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        while self.value(expression) != Value::Bool(true) {
            assert!(Instant::now() < until, "it never became true: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks in the middle of the first element that a selector finds, with the mouse: what lies above it would get the click.
    pub fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const found = document.querySelector({}); if (!found) return null; \
             found.scrollIntoView({{ block: 'center', inline: 'center' }}); \
             const box = found.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
            json!(selector)
        ));
        let (Some(x), Some(y)) = (place[0].as_f64(), place[1].as_f64()) else {
            panic!("there is no {selector} to click at");
        };
        for (kind, buttons) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)] {
            self.call(
                "Input.dispatchMouseEvent",
                json!({ "type": kind, "x": x, "y": y, "button": if kind == "mouseMoved" { "none" } else { "left" },
                    "buttons": buttons, "clickCount": 1 }),
            );
        }
    }

    /// Presses a key: `Enter`, `ArrowRight`, `Tab`.
    pub fn press(&mut self, key: &str) {
        let text = if key == "Enter" { "\r" } else { "" };
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// A picture of the whole page, as a PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let taken = self.call(
            "Page.captureScreenshot",
            json!({ "format": "png", "captureBeyondViewport": true }),
        );
        decoded(taken["data"].as_str().expect("a picture"))
    }

    /// The page as it is printed, as a PDF.
    pub fn print(&mut self) -> Vec<u8> {
        let printed = self.call("Page.printToPDF", json!({ "printBackground": true }));
        decoded(printed["data"].as_str().expect("a print"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser's own processes are in its group.
        // SAFETY: the group is that of a child which was not waited for, so that its number is not another's.
        unsafe { libc::kill(-self.child.id().cast_signed(), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

/// What arrives, message by message.
fn messages(from: File) -> Receiver<Value> {
    let (to, messages) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut bytes = Vec::new();
        while from
            .by_ref()
            .read_until(0, &mut bytes)
            .is_ok_and(|count| count > 0)
        {
            bytes.pop();
            let Ok(message) = serde_json::from_slice(&bytes) else {
                break;
            };
            if to.send(message).is_err() {
                break;
            }
            bytes.clear();
        }
    });
    messages
}

/// Bytes of base64.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0u32);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
