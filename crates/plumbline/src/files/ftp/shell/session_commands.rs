//! Commands of the shell for other servers and users, and for bookmarks.

use super::super::command_output::print;
use super::{ShellState, bookmarks};
use crate::files::progress::print_message;
use transfer::ftp::FtpError;
use transfer::url::{Login, Url};

impl ShellState<'_> {
    /// Runs a command; `None` if its arguments are wrong.
    pub(super) async fn session_command(
        &mut self,
        name: &str,
        words: &[&str],
    ) -> Option<Result<(), FtpError>> {
        Some(match (name, words) {
            ("open", [host]) => invalid_request(bookmarks().and_then(|all| all.resolve(host)))
                .map(|url| self.next_url = Some(url)),
            ("user", [user, rest @ ..]) if rest.len() < 2 => {
                let password = rest.first().map(|password| password.as_bytes().to_vec());
                let login = Login { user: Some(user.as_bytes().to_vec()), password };
                self.next_url = Some(Url { login, name: Vec::new(), ..self.url.clone() });
                Ok(())
            }
            ("close", []) => {
                self.client.close_session().await;
                print_message("closed: the next command opens a new session");
                Ok(())
            }
            ("bookmark", ["add", bookmark]) => {
                let url = Url { name: self.directory.clone(), ..self.url.clone() };
                invalid_request(bookmarks().and_then(|mut all| all.add(bookmark, &url)))
            }
            ("bookmark", ["delete" | "del", bookmark]) => {
                invalid_request(bookmarks().and_then(|mut all| all.delete(bookmark)))
            }
            ("bookmark", [] | ["list"]) => match invalid_request(bookmarks()) {
                Ok(all) => print(all.text().as_bytes()),
                Err(error) => Err(error),
            },
            _ => return None,
        })
    }
}

fn invalid_request<T>(result: anyhow::Result<T>) -> Result<T, FtpError> {
    result.map_err(|error| FtpError::InvalidRequest(format!("{error:#}")))
}
