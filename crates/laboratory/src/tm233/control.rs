//! Chapter 4 of TM-233 with the costs of the thesis: the effect of a control structure on the echo
//! time of a key and the time of a screenful. A switch from one step of a station to another is
//! called a change of control.

use super::costs::{SEGMENT_NS, ibm_pc};
use super::experiments::{
    Equipment, SCREENFUL, SEED, UserWorld, WINDOW, open, personal_computer, text, world,
};
use super::workload::ScriptedUser;
use net::meter::{Costs, Work};
use net::station::Control;
use net::time::{Duration, Instant};
use simulator::Stuck;
use simulator::transmission_line::Line;

/// Time of a change of control between two empty procedures with the procedure-based scheduler
/// (§4.2.4).
pub(crate) const PROCEDURE_NS: u64 = 70_000;
/// Time of a change of control between two empty tasks (§4.2.4).
pub(crate) const TASK_NS: u64 = 135_000;
/// Number of changes of control that the thesis's cost OOF includes: one for a received packet, and
/// two for a sent packet, to the user task and to the send task (§4.2.4). OOF is the cost of one
/// received and one sent packet; half of it is charged to each side.
const SWITCHES_IN_OOF: u64 = 3;

/// Function that creates the control structure of one host.
pub(crate) type ControlFactory<'a> = &'a dyn Fn() -> Box<dyn Control>;

/// Returns the costs of 1982, with `switch_ns` per change of control. The changes of control that
/// OOF includes are counted and charged separately, so their cost is subtracted from OOF.
#[must_use]
pub(crate) fn ibm_pc_switching_in(switch_ns: u64) -> Costs {
    let segment_ns = SEGMENT_NS - SWITCHES_IN_OOF * TASK_NS / 2;
    ibm_pc().with(Work::Segment, segment_ns).with(Work::Switch, switch_ns)
}

/// Results with one control structure: the times of a key and of a screenful, and their changes of
/// control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ControlTimes {
    /// Mean time from a key to its echo.
    pub echo: Duration,
    /// Changes of control per key and echo, on the user's and on the server's computer.
    pub echo_switches: [f64; 2],
    /// Time from the start of printing the first character to the end of printing the last one.
    pub screenful: Duration,
    /// Changes of control on the reader's computer, from opening the connection to printing the
    /// last character.
    pub screenful_switches: u64,
}

/// Simulates `keys` keys and one screenful between two computers with these costs, over `line`.
///
/// # Errors
///
/// Returns an error if no event is left before the end of the run.
pub(crate) fn measure_control(
    line: Line,
    costs: Costs,
    keys: usize,
    control: ControlFactory<'_>,
) -> Result<ControlTimes, Stuck> {
    let users = [ScriptedUser::typist(b"x".to_vec(), keys, true), ScriptedUser::echoer(true)];
    let mut world = world_with_control(users, line, costs, control);
    open(&mut world)?;
    let before = switches(&world);
    world.drive(|world| world.user.application.stream.is_done())?;
    let echo = world.user.application.stream.round_trip();
    let after = switches(&world);
    let switches_per_key = |side: usize| {
        let switch_count =
            after.get(side).zip(before.get(side)).map(|(after, before)| after - before);
        switch_count.unwrap_or(0) as f64 / keys as f64
    };
    let echo_switches = [switches_per_key(0), switches_per_key(1)];

    let users = [ScriptedUser::reader(), ScriptedUser::writer(text(SCREENFUL), false)];
    let mut world = world_with_control(users, line, costs, control);
    open(&mut world)?;
    let [before, _] = switches(&world);
    world.drive(|world| world.user.application.stream.console.bytes == SCREENFUL)?;
    let console = &world.user.application.stream.console;
    let screenful = console.last_cell_at - console.first_cell_at.unwrap_or(Instant::ZERO);
    let [after, _] = switches(&world);
    Ok(ControlTimes { echo, echo_switches, screenful, screenful_switches: after - before })
}

fn world_with_control(
    users: [ScriptedUser; 2],
    line: Line,
    costs: Costs,
    control: ControlFactory<'_>,
) -> UserWorld {
    let equipment = Equipment { costs, ..Equipment::of_1982() };
    let mut world = world(users, equipment, line, personal_computer(WINDOW), SEED);
    world.user.set_control(control());
    world.server.set_control(control());
    world
}

fn switches(world: &UserWorld) -> [u64; 2] {
    [&world.user.meter, &world.server.meter].map(|meter| meter.units(Work::Switch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tm233::{echo, screenful};
    use net::station::Scheduler;

    fn scheduler() -> Box<dyn Control> {
        Box::new(Scheduler::default())
    }

    fn by_scheduler(switch_ns: u64) -> ControlTimes {
        measure_control(Line::serial(9_600), ibm_pc_switching_in(switch_ns), 100, &scheduler)
            .unwrap()
    }

    #[test]
    fn at_the_cost_of_tasking_a_key_takes_the_time_in_the_tables() {
        let times = by_scheduler(TASK_NS);
        let table = echo(9_600, 100).unwrap();
        assert!(times.echo.abs_diff(table) < table / 200, "{times:?} and {table:?}");
        let table = screenful(9_600).unwrap().first_to_last;
        assert!(times.screenful.abs_diff(table) < table / 200, "{times:?} and {table:?}");
    }

    #[test]
    fn a_key_and_its_echo_take_three_context_switches_at_each_host() {
        let [user, server] = by_scheduler(TASK_NS).echo_switches;
        assert!((2.9..3.1).contains(&user) && (2.9..3.1).contains(&server), "{user} and {server}");
    }

    #[test]
    fn an_echo_takes_the_time_of_the_context_switches_on_its_path() {
        let line = Line::path(Duration::ZERO);
        let costs = Costs::default().with(Work::Switch, 1_000);
        let times = measure_control(line, costs, 100, &scheduler).unwrap();
        assert_eq!(times.echo, Duration::from_nanos(6_000));
    }
}
