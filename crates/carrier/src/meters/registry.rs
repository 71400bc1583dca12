//! Registry of the meters of a running plumb: the counter blocks of live meters and the sums of
//! ended meters. Meters with a common name form a group.

use super::meter_report::{Figures, Group, MeterReport, Readings};
use net::meter::{CounterBlock, Meter, Snapshot};
use os::clock::Calibration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The meters of one process.
#[derive(Debug)]
pub struct MeterRegistry {
    command: String,
    began: Instant,
    calibration: Calibration,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    live: BTreeMap<u64, (&'static str, Arc<CounterBlock>)>,
    ended: BTreeMap<&'static str, (u64, Snapshot)>,
}

impl MeterRegistry {
    /// Creates a registry without meters; `command` describes the command that runs.
    pub fn new(command: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            command: command.into(),
            began: Instant::now(),
            calibration: Calibration::start(),
            entries: Mutex::default(),
        })
    }

    /// Publishes `meter` under `name` until the returned value is dropped. The sum still includes
    /// the measurements of dropped meters.
    #[must_use]
    pub fn register(self: &Arc<Self>, name: &'static str, meter: &Meter) -> Registration {
        self.register_block(name, meter.counter_block())
    }

    /// Like [`MeterRegistry::register`], for the counter block of a meter to which the caller has
    /// no reference.
    #[must_use]
    pub fn register_block(
        self: &Arc<Self>,
        name: &'static str,
        counter_block: Arc<CounterBlock>,
    ) -> Registration {
        let mut entries = self.entries();
        let number = entries.next;
        entries.next += 1;
        entries.live.insert(number, (name, counter_block));
        Registration { registry: Arc::clone(self), number }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current figures. The tick rate of the counter is known 10 ms after the creation
    /// of the registry; an earlier call waits until then.
    pub(super) fn report(&self, readings: Readings) -> MeterReport {
        let rate = self.calibration.finish();
        let mut groups: BTreeMap<&str, (u64, u64, Snapshot)> = BTreeMap::new();
        {
            let entries = self.entries();
            let now = os::clock::ticks();
            for (name, (ended, snapshot)) in &entries.ended {
                groups.insert(name, (0, *ended, snapshot.clone()));
            }
            for (name, counter_block) in entries.live.values() {
                let (live, _, sum) = groups.entry(name).or_default();
                *live += 1;
                sum.add_block(counter_block, now);
            }
        }
        let mut all = Snapshot::default();
        groups.values().for_each(|(_, _, snapshot)| all.add(snapshot));
        let groups = groups.into_iter().map(|(name, (live, ended, snapshot))| Group {
            name: name.to_owned(),
            live,
            ended,
            figures: Figures::of(&snapshot, rate),
        });
        MeterReport {
            format: MeterReport::FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            command: self.command.clone(),
            uptime_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            cpu_ns: u64::try_from(os::clock::process_cpu_time().as_nanos()).unwrap_or(u64::MAX),
            readings: Some(readings),
            all: Figures::of(&all, rate),
            groups: groups.collect(),
        }
    }
}

/// Registration of a meter.
#[derive(Debug)]
pub struct Registration {
    registry: Arc<MeterRegistry>,
    number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut entries = self.registry.entries();
        if let Some((name, counter_block)) = entries.live.remove(&self.number) {
            let (count, sum) = entries.ended.entry(name).or_default();
            *count += 1;
            sum.add_block(&counter_block, os::clock::ticks());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::meter::{Account, Clock, Counter};

    fn metered() -> Meter {
        Meter::new(Clock::Counter(os::clock::counter()))
    }

    fn add_visits(meter: &mut Meter, times: usize) {
        for _ in 0..times {
            meter.enter(Account::Telnet);
            meter.enter(Account::Outside);
        }
        meter.count(Counter::Wakeups);
    }

    fn visits(figures: &Figures) -> u64 {
        let telnet = figures.primitives.iter().find(|primitive| primitive.name == "Telnet");
        telnet.map_or(0, |primitive| primitive.visits)
    }

    #[test]
    fn an_ended_meter_stays_in_the_sum_and_is_counted_once() {
        let registry = MeterRegistry::new("serve");
        let mut meters = [metered(), metered()];
        let [first, second] = &mut meters;
        let registration = registry.register("sessions", first);
        let _other = registry.register("sessions", second);
        add_visits(first, 3);
        add_visits(second, 4);
        for (live, ended) in [(2, 0), (1, 1)] {
            let report = registry.report(Readings::default());
            let [group] = report.groups.as_slice() else { panic!("{report:?}") };
            assert_eq!((group.live, group.ended, visits(&group.figures)), (live, ended, 7));
            assert_eq!((visits(&report.all), report.all.wakeups), (7, 2));
            if ended == 0 {
                registry.entries().live.get(&registration.number).unwrap();
                let number = registration.number;
                drop(Registration { registry: Arc::clone(&registry), number });
            }
        }
    }

    #[test]
    fn meters_with_different_names_are_separate_groups_and_all_are_summed() {
        let registry = MeterRegistry::new("serve");
        let mut meters = [metered(), metered()];
        let [logins, files] = &mut meters;
        let _registrations =
            (registry.register("logins", logins), registry.register("files", files));
        add_visits(logins, 1);
        add_visits(files, 2);
        let report = registry.report(Readings::default());
        let groups: Vec<_> = report
            .groups
            .iter()
            .map(|group| (group.name.as_str(), visits(&group.figures)))
            .collect();
        assert_eq!((groups, visits(&report.all)), (vec![("files", 2), ("logins", 1)], 3));
    }
}
