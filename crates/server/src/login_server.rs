//! State of the login server, shared by its sessions.

use super::admission::Admission;
use super::fair_queue::{FairQueue, PASSWORD_CHECKS};
use super::log::Log;
use super::login_configuration::LoginConfiguration;
use super::metered::Metered;
use super::program;
use super::session_shutdown::SessionShutdown;
use super::users::{self, Users};
use anyhow::{Context, Result, bail};
use carrier::meters::MeterRegistry;
use carrier::{BorrowedContext, EngineContext};
use net::meter::{Account, Counter};
use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Size of the read buffer, which all sessions of a thread share: they read one at a time.
const SCRATCH_LEN: usize = 64 * 1024;

/// Service behind the login listeners.
#[derive(Clone, Debug)]
pub(crate) enum Service {
    /// No login listeners; the server serves only serial consoles.
    NoLogins,
    /// Login program of the system.
    SystemLogin,
    /// Users of a user file.
    Users(Arc<Users>),
    /// One program for every client.
    Exec(Vec<String>),
}

/// Configuration of the login server whose service is available.
#[derive(Debug)]
pub(crate) struct LoginPlan {
    configuration: LoginConfiguration,
    service: Service,
}

impl LoginPlan {
    /// Prepares the service of the configuration; reads the user file if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the user file cannot be read, or if the system's login is not available.
    pub(crate) fn prepare(configuration: LoginConfiguration) -> Result<Self> {
        Ok(Self { service: service(&configuration)?, configuration })
    }

    pub(crate) const fn configuration(&self) -> &LoginConfiguration {
        &self.configuration
    }

    /// Returns a warning if clients get programs that run as the user of the server.
    pub(crate) fn service_user_note(&self) -> Option<String> {
        let names = match &self.service {
            Service::Users(users) => users::with_programs_of_the_server(users),
            Service::Exec(_) => vec!["every client".to_owned()],
            Service::NoLogins | Service::SystemLogin => Vec::new(),
        };
        (!names.is_empty()).then(|| {
            format!(
                "exec without runs-as ({}) runs as the user of the server, who can read the user \
                 files, keys and records: use it only for programs that give no shell",
                names.join(", ")
            )
        })
    }
}

/// State shared by all login sessions.
pub(crate) struct LoginState {
    configuration: RefCell<Rc<LoginConfiguration>>,
    service: RefCell<Service>,
    pub(crate) admission: Mutex<Admission>,
    /// Queue of password checks.
    pub(crate) checks: FairQueue,
    pub(crate) log: Log,
}

impl LoginState {
    /// Creates the state of a server without sessions.
    pub(crate) fn new(plan: LoginPlan, log: Log) -> Self {
        let LoginPlan { configuration, service } = plan;
        Self {
            service: RefCell::new(service),
            admission: Mutex::new(Admission::new(configuration.rules.clone())),
            checks: FairQueue::new(PASSWORD_CHECKS),
            log,
            configuration: RefCell::new(Rc::new(configuration)),
        }
    }

    /// Returns the current configuration.
    pub(crate) fn configuration(&self) -> Rc<LoginConfiguration> {
        Rc::clone(&self.configuration.borrow())
    }

    /// Returns the service for new sessions.
    pub(crate) fn service(&self) -> Service {
        self.service.borrow().clone()
    }

    /// Adopts another configuration for new sessions.
    pub(crate) fn apply(&self, plan: LoginPlan) {
        self.admission().set_rules(plan.configuration.rules.clone());
        self.service.replace(plan.service);
        self.configuration.replace(Rc::new(plan.configuration));
    }

    pub(crate) fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State shared by all sessions of the server's thread.
pub(crate) struct LoginServer {
    pub(crate) login_state: LoginState,
    pub(crate) engine: RefCell<EngineContext>,
    pub(crate) scratch: RefCell<Vec<u8>>,
    /// Ends the sessions when the process stops.
    pub(crate) shutdown: SessionShutdown,
}

impl Deref for LoginServer {
    type Target = LoginState;

    fn deref(&self) -> &LoginState {
        &self.login_state
    }
}

impl LoginServer {
    /// Creates the state, with a meter that is published in `registry`. `shutdown` ends its sessions.
    ///
    /// # Errors
    ///
    /// Returns an error if the meter cannot be created.
    pub(crate) fn open(
        login_state: LoginState,
        registry: &Arc<MeterRegistry>,
        shutdown: SessionShutdown,
    ) -> Result<Self> {
        let engine = RefCell::new(EngineContext::published(registry, "logins")?);
        let scratch = RefCell::new(vec![0; SCRATCH_LEN]);
        Ok(Self { login_state, engine, scratch, shutdown })
    }

    /// Borrows the clock, the random number generator and the meter. Must not be held across an
    /// await.
    pub(crate) fn engine(&self) -> BorrowedContext<'_> {
        BorrowedContext::from(&self.engine)
    }

    /// Executes a system call that reads or writes data, and charges its time to system calls.
    pub(crate) fn charge_call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.charge(Account::Interrupt, call)
    }

    /// Counts the wakeup of a session.
    pub(crate) fn count_wakeup(&self) {
        self.engine.borrow_mut().meter.count(Counter::Wakeups);
    }
}

impl Metered for LoginServer {
    fn engine_context(&self) -> &RefCell<EngineContext> {
        &self.engine
    }
}

fn service(configuration: &LoginConfiguration) -> Result<Service> {
    if !configuration.serves_logins() {
        return Ok(Service::NoLogins);
    }
    if let Some(program_arguments) = &configuration.exec {
        return Ok(Service::Exec(program_arguments.clone()));
    }
    if let Some(path) = &configuration.users {
        let users = Users::read(path)?;
        users::check_rights(&users, os::user::is_root())
            .with_context(|| path.display().to_string())?;
        return Ok(Service::Users(Arc::new(users)));
    }
    if !os::user::is_root() {
        bail!(
            "the system's login needs root: use sudo, or give a user file with --users, or one \
             program with --exec"
        );
    }
    if program::login_path().is_none() {
        bail!("this system has no login program: give a user file with --users");
    }
    Ok(Service::SystemLogin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration_loader::ConfigurationLoader;
    use crate::flags::Flags;

    fn plan(text: &str) -> LoginPlan {
        let path = std::env::temp_dir().join(format!("plumb-reload-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let flags = Flags { config: Some(path.clone()), ..Flags::default() };
        let loader = ConfigurationLoader::open(&flags).unwrap();
        std::fs::remove_file(path).unwrap();
        LoginPlan::prepare(loader.login().unwrap()).unwrap()
    }

    #[test]
    fn a_reload_applies_the_rules_the_texts_and_the_service() {
        let running = LoginState::new(
            plan("[login]\ndeny = [\"192.0.2.0/24\"]\nexec = [\"menu\"]\n"),
            Flags::default().log(),
        );
        let is_denied = || running.admission().admit([192, 0, 2, 1].into()).is_err();
        assert!(is_denied());
        assert_eq!(running.configuration().greeting(), b"");
        running.apply(plan("[login]\nexec = [\"date\"]\ngreeting = \"new\"\n"));
        assert!(!is_denied());
        assert_eq!(running.configuration().greeting(), b"new\r\n");
        assert!(matches!(running.service(), Service::Exec(program) if program == ["date"]));
        running.apply(plan("[[console]]\ndevice = \"/dev/ttyS0\"\n"));
        assert!(matches!(running.service(), Service::NoLogins));
    }
}
