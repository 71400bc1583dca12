//! Tests of the pages in a real browser: console messages, and whether the whole content is
//! visible.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use records::Measurement;
use report::summary;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use test_support::not_configured;

/// A headless browser with a profile directory of its own.
struct Browser {
    program: PathBuf,
    directory: PathBuf,
}

impl Browser {
    /// Returns the browser specified by `PLUMB_BROWSER`, or chromium; `None` if the test is not
    /// configured.
    fn find() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let program = match std::env::var_os("PLUMB_BROWSER") {
            Some(named) => PathBuf::from(named),
            None => match ["chromium", "chromium-browser"].into_iter().find(|name| can_run(name)) {
                Some(name) => PathBuf::from(name),
                None => {
                    not_configured("PLUMB_BROWSER", "it is not set, and there is no chromium");
                    return None;
                }
            },
        };
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = format!("plumb-page-{}-{next}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        fs::create_dir_all(&directory).unwrap();
        Some(Self { program, directory })
    }

    /// Returns the rendered DOM of the page, and the messages of the browser.
    fn rendered_dom(&self, page: &str) -> (String, String) {
        let file = self.directory.join("page.html");
        fs::write(&file, page).unwrap();
        let Output { stdout, stderr, .. } = self.opens(&file);
        [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).into()
    }

    fn opens(&self, file: &Path) -> Output {
        let mut command = Command::new(&self.program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--enable-logging=stderr", "--virtual-time-budget=1000", "--dump-dom"]);
        command.arg("--window-size=1600,1000");
        command.arg(format!("--user-data-dir={}", self.directory.display()));
        command.arg(file).output().unwrap()
    }
}

/// Returns whether `program` can be executed.
fn can_run(program: &str) -> bool {
    let version = Command::new(program).arg("--version").output();
    version.is_ok_and(|version| version.status.success())
}

impl Drop for Browser {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.directory);
    }
}

/// Returns the pages of all sample records.
fn pages() -> Vec<String> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../records/samples");
    let files = fs::read_dir(samples).unwrap().map(|file| file.unwrap().path());
    let records = files
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("measurement"))
        .map(|path| Measurement::from_json(&fs::read_to_string(path).unwrap()).unwrap());
    let pages: Vec<String> = records.map(|record| summary::report(&record).render()).collect();
    assert!(pages.len() >= 2);
    pages
}

/// Script of a page with frames. It tests for each frame whether its content is wider than the
/// window, and whether a text of a chart extends beyond the chart.
const OVERFLOW_SCRIPT: &str = "
for (const frame of document.querySelectorAll('iframe')) {
  const inside = frame.contentDocument, root = inside.scrollingElement;
  const faults = [];
  // The texts of the tips must fit, too.
  inside.head.append(Object.assign(inside.createElement('style'),
    { textContent: '.tip text { display: inline !important; }' }));
  for (const picture of inside.querySelectorAll('svg')) {
    const room = picture.viewBox.baseVal;
    if (picture.getClientRects().length == 0) continue;
    for (const text of picture.querySelectorAll('text')) {
      const box = text.getBBox();
      const right = box.x + box.width, bottom = box.y + box.height;
      if (box.x < -1 || right > room.width + 1 || bottom > room.height + 3)
        faults.push(text.textContent + ' at ' + Math.round(box.x) + ' to ' + Math.round(right));
    }
  }
  const line = document.createElement('pre');
  line.textContent = 'frame ' + frame.width + ' wide ' + root.scrollWidth +
    ' cut ' + faults.length + ' ' + faults.join(' | ');
  document.body.append('\\n', line);
}
";

/// Returns a page that contains `page` in a frame of each of these widths and tests the frames.
fn framed(page: &str, widths: &[u32]) -> String {
    let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
    let frames: String = widths
        .iter()
        .map(|width| {
            format!("<iframe width=\"{width}\" height=\"900\" srcdoc=\"{quoted}\"></iframe>\n")
        })
        .collect();
    format!(
        "<!DOCTYPE html><html><head><meta charset=\"utf-8\"></head><body>\n{frames}\
         <script>addEventListener('load', () => {{{OVERFLOW_SCRIPT}}});</script></body></html>"
    )
}

#[test]
fn a_browser_shows_every_chart_without_console_messages() {
    let Some(browser) = Browser::find() else { return };
    for page in pages() {
        let (dom, console_log) = browser.rendered_dom(&page);
        assert_eq!(
            dom.matches("<figure>").count(),
            page.matches("<figure>").count(),
            "{console_log}"
        );
        assert!(dom.contains("</html>"));
        assert!(
            !console_log.contains("Refused to") && !console_log.contains("CONSOLE"),
            "{console_log}"
        );
    }
}

#[test]
fn no_page_is_wider_than_its_window_and_no_chart_text_is_truncated() {
    let Some(browser) = Browser::find() else { return };
    let widths = [320, 400, 641, 1200];
    for page in pages() {
        let (dom, console_log) = browser.rendered_dom(&framed(&page, &widths));
        for width in widths {
            // The scroll bar of a frame reduces its width.
            let line = dom.lines().find(|line| line.contains(&format!("frame {width} wide ")));
            let line = line.unwrap_or_else(|| panic!("{console_log}"));
            let (_, rest) = line.split_once(" wide ").unwrap();
            let (wide, cut) = rest.split_once(" cut ").unwrap();
            assert!(wide.parse::<u32>().unwrap() <= width, "{line}");
            assert!(cut.starts_with("0 "), "{line}");
        }
    }
}
