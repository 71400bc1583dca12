//! Transfer settings of the shell, and other commands to the server.

use super::super::manage::show;
use super::super::options::TypeWish;
use super::super::options::{check, mode, structure, type_wish, word_format};
use super::super::remote::name_of;
use super::super::trouble::Trouble;
use super::Desk;
use super::commands::{help, instead_of_quote};
use crate::files::shown::shown;
use protocols::application::ftp::user::Task;
use protocols::application::ftp::{ByteSize, Representation, Type, WordFormat};
use std::sync::atomic::Ordering;

fn wrong(error: &anyhow::Error) -> Trouble {
    Trouble::Wrong(format!("{error:#}"))
}

impl Desk {
    /// Runs a command; `None` if its arguments are wrong.
    pub(super) async fn session(
        &mut self,
        name: &str,
        words: &[&str],
        rest: &str,
    ) -> Option<Result<(), Trouble>> {
        Some(match (name, words) {
            ("type", [wanted]) => self.set_type(wanted).await,
            ("mode", [wanted]) => self.set(mode(wanted), |to, mode| to.mode = mode),
            ("stru", [wanted]) => self.set(structure(wanted), |to, stru| to.structure = stru),
            ("store", [wanted]) => self.set(word_format(wanted), |to, form| {
                to.word_format = form;
                // A word format requires a type of words.
                if to.data_type == Type::Image {
                    to.data_type = Type::Local(ByteSize::WORD36);
                }
            }),
            ("type" | "mode" | "stru" | "store", []) => show(self.representation_text().as_bytes()),
            ("passive", []) => self.set_active(false).await,
            ("active", []) => self.set_active(true).await,
            ("prompt", []) => {
                self.asks = !self.asks;
                show(self.prompt_text().as_bytes())
            }
            ("verbose", []) => {
                let shared = &self.dialogue.caller.shared;
                let was_on = shared.is_verbose.fetch_xor(true, Ordering::Relaxed);
                let text = if was_on { "server replies: off\n" } else { "server replies: on\n" };
                show(text.as_bytes())
            }
            ("site", [_, ..]) => self.quote(&format!("SITE {rest}")).await,
            ("quote", [_, ..]) => self.quote(rest).await,
            ("status", []) => self.status().await,
            ("help", []) => show(help(None).unwrap_or_default().as_bytes()),
            ("help", [word]) => match help(Some(word)) {
                Ok(text) => show(text.as_bytes()),
                Err(sentence) => Err(Trouble::Wrong(sentence)),
            },
            _ => return None,
        })
    }

    async fn set_type(&mut self, wanted: &str) -> Result<(), Trouble> {
        match type_wish(wanted).map_err(|error| wrong(&error))? {
            TypeWish::This(data_type) => {
                let is_image = data_type == Type::Image;
                let data_type = if is_image { self.image.data_type } else { data_type };
                self.set(Ok(data_type), |to, kind| to.data_type = kind)
            }
            TypeWish::Auto => {
                self.terms.asks_system = true;
                self.dialogue.choose_type(&mut self.terms).await
            }
        }
    }

    /// Sets a part of the representation, if the whole is supported.
    fn set<T>(
        &mut self,
        read: anyhow::Result<T>,
        put: impl FnOnce(&mut Representation, T),
    ) -> Result<(), Trouble> {
        let mut representation = self.terms.representation;
        put(&mut representation, read.map_err(|error| wrong(&error))?);
        check(&representation).map_err(|error| wrong(&error))?;
        self.terms.representation = representation;
        Ok(())
    }

    /// Selects active or passive mode. The session ends, since the mode applies to new sessions.
    async fn set_active(&mut self, is_active: bool) -> Result<(), Trouble> {
        let was_active = self.dialogue.caller.is_active.swap(is_active, Ordering::Relaxed);
        if was_active != is_active {
            self.dialogue.hang_up().await;
        }
        Ok(())
    }

    fn representation_text(&self) -> String {
        let Representation { data_type, mode, structure, word_format } = self.terms.representation;
        let known = WordFormat::ALL.iter().find(|(one, _)| *one == word_format);
        let format = known.map_or("", |(_, name)| *name);
        format!("TYPE {data_type}, MODE {mode}, STRU {structure}, local words as {format}\n")
    }

    fn prompt_text(&self) -> &'static str {
        match self.asks {
            true => "prompting before each of many files: on\n",
            false => "prompting before each of many files: off\n",
        }
    }

    async fn status(&mut self) -> Result<(), Trouble> {
        let caller = &self.dialogue.caller;
        let way = match caller.is_active.load(Ordering::Relaxed) {
            true => "active mode: the server connects for data\n",
            false => "passive mode: the client connects for data\n",
        };
        let (host, folder) = (&caller.target, shown(&self.folder));
        let text = format!(
            "{host}, directory '{folder}'\n{}{way}{}",
            self.representation_text(),
            self.prompt_text()
        );
        show(text.as_bytes())?;
        self.reply("cannot read the status", Task::Status(None)).await
    }

    async fn quote(&mut self, command: &str) -> Result<(), Trouble> {
        if let Some(instead) = instead_of_quote(command) {
            let verb = command.split_whitespace().next().unwrap_or_default();
            return Err(Trouble::Wrong(format!("{verb} cannot be sent by quote: {instead}")));
        }
        let task = Task::Quote(name_of(command.as_bytes())?);
        self.reply("cannot run the command", task).await
    }

    /// Runs a task, and prints the server's reply.
    async fn reply(&mut self, wanted: &str, task: Task) -> Result<(), Trouble> {
        let done = self.dialogue.run_once(wanted, task, None).await.0?;
        let lines = done.reply.lines.iter().map(|text| format!("{}\n", shown(text)));
        show(lines.collect::<String>().as_bytes())
    }
}
