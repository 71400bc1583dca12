//! Settings of an interface below /proc/sys/net, in the network namespace of the calling thread.

use std::path::PathBuf;
use std::{fs, io};

/// A setting that was changed. Dropping it restores the original value.
#[derive(Debug)]
pub struct ChangedSetting {
    file: PathBuf,
    original: String,
}

impl ChangedSetting {
    /// Sets `setting`, such as `ipv4/conf/eth0/forwarding`, to `value`. Returns `None` if it has
    /// this value already.
    ///
    /// # Errors
    ///
    /// Returns the error of reading or writing the file: EROFS or EACCES in some containers.
    pub fn set(setting: &str, value: &str) -> io::Result<Option<Self>> {
        let original = read(setting)?;
        if original == value {
            return Ok(None);
        }
        let file = file(setting);
        fs::write(&file, value)?;
        Ok(Some(Self { file, original }))
    }
}

impl Drop for ChangedSetting {
    fn drop(&mut self) {
        // The interface may be gone, and its settings with it.
        _ = fs::write(&self.file, &self.original);
    }
}

/// Returns the value of `setting`, such as `ipv6/conf/all/forwarding`.
///
/// # Errors
///
/// Returns ENOENT if the interface or the setting does not exist.
pub fn read(setting: &str) -> io::Result<String> {
    Ok(fs::read_to_string(file(setting))?.trim().to_owned())
}

fn file(setting: &str) -> PathBuf {
    PathBuf::from("/proc/sys/net").join(setting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_new_network;

    #[test]
    fn a_changed_setting_is_restored() {
        in_new_network(|| {
            let setting = "ipv4/conf/lo/forwarding";
            let original = read(setting).unwrap();
            let other = if original == "0" { "1" } else { "0" };
            let changed = ChangedSetting::set(setting, other).unwrap();
            assert_eq!(read(setting).unwrap(), other);
            assert!(ChangedSetting::set(setting, other).unwrap().is_none());
            drop(changed);
            assert_eq!(read(setting).unwrap(), original);
        });
    }
}
