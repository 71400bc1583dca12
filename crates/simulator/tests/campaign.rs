//! Test of the fault campaign with a number of seeds suitable for a daily test; `./x soak` runs
//! more.

use simulator::soak;

const SEEDS: u64 = 200;

#[test]
fn every_byte_arrives_once_and_in_order_and_both_ends_close_on_any_path() {
    let failures: Vec<String> =
        (0..SEEDS).filter_map(|seed| soak::run(seed).err()).map(|it| it.to_string()).collect();
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}
