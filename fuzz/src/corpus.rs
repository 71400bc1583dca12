//! Seeds of the corpus. They are made by functions when a target starts, and none is kept in the
//! repository.

use std::path::PathBuf;

/// Writes `seeds` into the folder of the corpus: the first argument that is a folder.
///
/// Without such an argument one input is repeated, and there is nothing to plant.
pub fn plant(seeds: &[Vec<u8>]) {
    let folder = std::env::args_os().skip(1).map(PathBuf::from).find(|path| path.is_dir());
    let Some(folder) = folder else { return };
    for (number, seed) in seeds.iter().enumerate() {
        let file = folder.join(format!("seed-{number}"));
        std::fs::write(&file, seed).expect("the folder of the corpus can be written");
    }
}
