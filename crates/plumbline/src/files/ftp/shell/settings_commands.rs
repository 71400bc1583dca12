//! Transfer settings of the shell, and protocol commands that are sent unchanged.

use super::super::command_output::print;
use super::ShellState;
use super::commands::{help, quote_replacement};
use crate::files::representation::{
    RequestedType, parse_mode, parse_requested_type, parse_structure, parse_word_format,
};
use protocols::ftp::user::Task;
use protocols::ftp::{ByteSize, Representation, Type, WordFormat};
use transfer::escaped;
use transfer::ftp::FtpError;
use transfer::ftp::{check, name_of};

fn wrong_argument(error: &anyhow::Error) -> FtpError {
    FtpError::InvalidRequest(format!("{error:#}"))
}

impl ShellState<'_> {
    /// Runs a command; `None` if its arguments are wrong.
    pub(super) async fn settings_command(
        &mut self,
        name: &str,
        words: &[&str],
        rest: &str,
    ) -> Option<Result<(), FtpError>> {
        Some(match (name, words) {
            ("type", [argument]) => self.set_type(argument).await,
            ("binary", []) => self.set_type("I").await,
            ("ascii", []) => self.set_type("A").await,
            ("mode", [argument]) => self.set(parse_mode(argument), |to, mode| to.mode = mode),
            ("stru", [argument]) => {
                self.set(parse_structure(argument), |to, stru| to.structure = stru)
            }
            ("store", [argument]) => self.set(parse_word_format(argument), |to, form| {
                to.word_format = form;
                // A word format requires a data type of words.
                if to.data_type == Type::Image {
                    to.data_type = Type::Local(ByteSize::WORD36);
                }
            }),
            ("type" | "mode" | "stru" | "store", []) => {
                print(self.representation_text().as_bytes())
            }
            ("passive", []) => self.set_active(false).await,
            ("active", []) => self.set_active(true).await,
            ("prompt", []) => {
                self.asks_before_each = !self.asks_before_each;
                print(self.prompt_text().as_bytes())
            }
            ("verbose", []) => {
                let is_verbose = self.client.connector().toggle_verbose();
                let state = if is_verbose { "on" } else { "off" };
                print(format!("commands and replies: {state}\n").as_bytes())
            }
            ("site", [_, ..]) => self.quote(&format!("SITE {rest}")).await,
            ("quote", [_, ..]) => self.quote(rest).await,
            ("status", []) => self.status().await,
            ("help", []) => print(help(None).unwrap_or_default().as_bytes()),
            ("help", [word]) => match help(Some(word)) {
                Ok(text) => print(text.as_bytes()),
                Err(sentence) => Err(FtpError::InvalidRequest(sentence)),
            },
            _ => return None,
        })
    }

    async fn set_type(&mut self, argument: &str) -> Result<(), FtpError> {
        match parse_requested_type(argument).map_err(|error| wrong_argument(&error))? {
            RequestedType::This(data_type) => {
                let is_image = data_type == Type::Image;
                let data_type = if is_image { self.image.data_type } else { data_type };
                self.set(Ok(data_type), |to, kind| to.data_type = kind)
            }
            RequestedType::Auto => {
                self.options.asks_system = true;
                self.client.choose_type(&mut self.options).await
            }
        }
    }

    /// Sets one parameter of the representation, if the resulting representation is supported.
    fn set<T>(
        &mut self,
        parsed: anyhow::Result<T>,
        set_parameter: impl FnOnce(&mut Representation, T),
    ) -> Result<(), FtpError> {
        let mut representation = self.options.representation;
        set_parameter(&mut representation, parsed.map_err(|error| wrong_argument(&error))?);
        check(&representation).map_err(|error| wrong_argument(&error))?;
        self.options.representation = representation;
        Ok(())
    }

    /// Selects active or passive mode. The session ends, since the mode applies to new sessions.
    async fn set_active(&mut self, is_active: bool) -> Result<(), FtpError> {
        if self.client.connector().set_active(is_active) {
            self.client.close_session().await;
        }
        Ok(())
    }

    fn representation_text(&self) -> String {
        let Representation { data_type, mode, structure, word_format } =
            self.options.representation;
        let named_format = WordFormat::ALL.iter().find(|(format, _)| *format == word_format);
        let format = named_format.map_or("", |(_, name)| *name);
        format!("TYPE {data_type}, MODE {mode}, STRU {structure}, local words as {format}\n")
    }

    fn prompt_text(&self) -> &'static str {
        match self.asks_before_each {
            true => "confirmation of each file: on\n",
            false => "confirmation of each file: off\n",
        }
    }

    async fn status(&mut self) -> Result<(), FtpError> {
        let connector = self.client.connector();
        let mode = match connector.is_active() {
            true => "active mode: the server connects for data\n",
            false => "passive mode: the client connects for data\n",
        };
        let host = connector.target();
        let directory = escaped(&self.directory);
        let text = format!(
            "{host}, directory '{directory}'\n{}{mode}{}",
            self.representation_text(),
            self.prompt_text()
        );
        print(text.as_bytes())?;
        self.run_and_print_reply("cannot read the status", Task::Status(None)).await
    }

    async fn quote(&mut self, command: &str) -> Result<(), FtpError> {
        if let Some(instead) = quote_replacement(command) {
            let verb = command.split_whitespace().next().unwrap_or_default();
            return Err(FtpError::InvalidRequest(format!(
                "{verb} cannot be sent by quote: {instead}"
            )));
        }
        let task = Task::Quote(name_of(command.as_bytes())?);
        self.run_and_print_reply("cannot run the command", task).await
    }

    /// Runs a task, and prints the server's reply.
    async fn run_and_print_reply(&mut self, context: &str, task: Task) -> Result<(), FtpError> {
        let done = self.client.run_once(context, task, None).await.0?;
        let lines = done.reply.lines.iter().map(|text| format!("{}\n", escaped(text)));
        print(lines.collect::<String>().as_bytes())
    }
}
