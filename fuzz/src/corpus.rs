//! Seeds of the corpus. Functions generate them when a target starts; the repository stores none.

use std::path::PathBuf;

/// Writes `seeds` into the corpus directory: the first argument that is a directory.
///
/// Without such an argument libFuzzer reruns a single input, and no seeds are needed.
pub fn write_seeds(seeds: &[Vec<u8>]) {
    let directory = std::env::args_os().skip(1).map(PathBuf::from).find(|path| path.is_dir());
    let Some(directory) = directory else { return };
    for (number, seed) in seeds.iter().enumerate() {
        let file = directory.join(format!("seed-{number}"));
        std::fs::write(&file, seed).expect("the corpus directory is writable");
    }
}
