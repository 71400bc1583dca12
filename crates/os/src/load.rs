//! Description of the machine and its load, for the header of a report.
//!
//! Measurements can be compared only if this description is known. Values that the machine does not
//! provide are `None`.

use std::fs;
use std::thread;

/// The machine on which a measurement was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name and release of the kernel.
    pub kernel: String,
    /// Processor architecture.
    pub architecture: String,
    /// Processor model.
    pub processor: Option<String>,
    /// Number of processors that this program may use.
    pub processors: Option<usize>,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// Congestion control algorithm of new kernel sockets.
    pub congestion_control: Option<String>,
}

impl Machine {
    /// Reads the description of this machine.
    #[must_use]
    pub fn current() -> Self {
        let names = rustix::system::uname();
        let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            kernel: format!("{} {}", text(names.sysname()), text(names.release())),
            architecture: text(names.machine()),
            processor: model_in(&processors),
            processors: thread::available_parallelism().ok().map(Into::into),
            clock_source: line_of(CLOCK_SOURCE),
            congestion_control: line_of("/proc/sys/net/ipv4/tcp_congestion_control"),
        }
    }
}

/// Returns the load averages over 1, 5 and 15 minutes.
#[must_use]
pub fn load_average() -> Option<[f64; 3]> {
    averages_in(&line_of("/proc/loadavg")?)
}

fn averages_in(line: &str) -> Option<[f64; 3]> {
    let mut numbers = line.split_ascii_whitespace().map(|word| word.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// Finds the processor model in the text of /proc/cpuinfo; on ARM the line with the model has
/// another name, or is missing.
fn model_in(processors: &str) -> Option<String> {
    let mut fields = processors.lines().filter_map(|line| line.split_once(':'));
    let is_model = |name: &str| matches!(name.trim(), "model name" | "Model" | "cpu model");
    fields.find(|(name, _)| is_model(name)).map(|(_, model)| model.trim().to_owned())
}

fn line_of(file: &str) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn printed_averages_are_parsed_back(hundredths: [u32; 3], rest in "( .*)?") {
            let averages = hundredths.map(|number| f64::from(number) / 100.0);
            let [one, five, fifteen] = averages;
            let line = format!("{one:.2} {five:.2} {fifteen:.2}{rest}");
            prop_assert_eq!(averages_in(&line), Some(averages));
        }

        #[test]
        fn the_model_is_found_among_any_fields(
            before in "([a-z_]{1,9}\t*: [^\n]{0,9}\n){0,4}", model in "[!-~]( ?[!-~]){0,20}",
            after in "(\n[^\n]{0,9}){0,3}",
        ) {
            let text = format!("{before}model name\t: {model}{after}");
            prop_assert_eq!(model_in(&text), Some(model));
        }
    }

    #[test]
    fn the_three_load_averages_are_parsed() {
        assert_eq!(averages_in("0.20 1.18 12.00 1/80 11206"), Some([0.2, 1.18, 12.0]));
        assert_eq!(averages_in("0.20 1.18"), None);
    }

    #[test]
    fn a_processor_is_named_by_its_model() {
        let text = "processor\t: 0\nvendor_id\t: Some\nmodel\t\t: 7\nmodel name\t: Some CPU 3\n";
        assert_eq!(model_in(text), Some("Some CPU 3".into()));
        assert_eq!(model_in("processor\t: 0\n"), None);
    }

    #[test]
    fn the_kernel_and_the_load_of_this_machine_are_read() {
        assert!(Machine::current().kernel.starts_with("Linux "));
        assert!(load_average().is_some());
    }
}
