//! State of the login server, shared by its sessions.

use super::admission::Admission;
use super::fair_queue::{FairQueue, PASSWORD_CHECKS};
use super::flags::Flags;
use super::log::Log;
use super::login_configuration::LoginConfiguration;
use super::metered::Metered;
use super::program;
use super::users::Users;
use anyhow::{Result, bail};
use carrier::meters::MeterRegistry;
use carrier::{BorrowedContext, EngineContext, Route};
use net::meter::{Account, Counter};
use os::executor::{EventLoop, Executor, WaitObserver};
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;

/// Size of the read buffer, which all sessions of a thread share: they read one at a time.
const SCRATCH_LEN: usize = 64 * 1024;
/// Environment variable that, if set, makes all sessions run on tokio, to measure the gain of the
/// executor.
const TOKIO_VARIABLE: &str = "PLUMB_SESSIONS_ON_TOKIO";

/// Service behind the login listeners.
pub(crate) enum Service {
    /// No login listeners; the server serves only serial consoles.
    NoLogins,
    /// Login program of the system.
    SystemLogin,
    /// Users of a user file.
    Users(Mutex<Arc<Users>>),
    /// One program for every client.
    Exec(Vec<String>),
}

/// State shared by all login sessions.
pub(crate) struct LoginState {
    pub(crate) configuration: LoginConfiguration,
    pub(crate) service: Service,
    pub(crate) via: Route,
    pub(crate) admission: Mutex<Admission>,
    /// Queue of password checks.
    pub(crate) checks: FairQueue,
    pub(crate) log: Log,
}

impl LoginState {
    /// Prepares the service of the configuration; reads the user file if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the user file cannot be read, or if the system's login is not available.
    pub(crate) fn prepare(configuration: LoginConfiguration, flags: &Flags) -> Result<Self> {
        Ok(Self {
            service: service(&configuration)?,
            via: flags.via.clone(),
            admission: Mutex::new(Admission::new(configuration.rules.clone())),
            checks: FairQueue::new(PASSWORD_CHECKS),
            log: flags.log(),
            configuration,
        })
    }

    /// Adopts the users and the admission rules of another configuration. Listeners and open
    /// sessions are not affected.
    pub(crate) fn apply_reloadable(&self, other: Self) {
        if let (Service::Users(users), Service::Users(new)) = (&self.service, other.service) {
            let new = new.into_inner().unwrap_or_else(PoisonError::into_inner);
            *users.lock().unwrap_or_else(PoisonError::into_inner) = new;
        }
        self.admission().set_rules(other.configuration.rules);
    }

    pub(crate) fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State shared by the sessions of one thread.
pub(crate) struct LoginServer {
    pub(crate) login_state: Arc<LoginState>,
    pub(crate) engine: RefCell<EngineContext>,
    pub(crate) scratch: RefCell<Vec<u8>>,
    pub(crate) event_loop: EventLoop,
    /// Runs cleartext logins on kernel sockets in a thread of its own.
    pub(crate) executor: Option<Executor<Self>>,
}

impl Deref for LoginServer {
    type Target = LoginState;

    fn deref(&self) -> &LoginState {
        &self.login_state
    }
}

impl LoginServer {
    pub(crate) fn new(
        login_state: Arc<LoginState>,
        engine: EngineContext,
        event_loop: EventLoop,
    ) -> Self {
        let engine = RefCell::new(engine);
        let scratch = RefCell::new(vec![0; SCRATCH_LEN]);
        Self { login_state, engine, scratch, event_loop, executor: None }
    }

    /// Creates the state of this thread. If cleartext logins on kernel sockets are configured, also
    /// starts their thread.
    pub(crate) fn open(login_state: LoginState, registry: &Arc<MeterRegistry>) -> Result<Self> {
        let login_state = Arc::new(login_state);
        let has_executor = login_state.via == Route::Kernel
            && !login_state.configuration.addresses.listen.is_empty()
            && std::env::var_os(TOKIO_VARIABLE).is_none();
        let engine = EngineContext::published(registry, "logins")?;
        let mut login_server = Self::new(Arc::clone(&login_state), engine, EventLoop::tokio());
        if has_executor {
            let engine = EngineContext::published(registry, "logins in cleartext")?;
            let share = move |event_loop| Self::new(login_state, engine, event_loop);
            login_server.executor = Some(Executor::start("sessions", Handle::current(), share)?);
        }
        Ok(login_server)
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

    /// Counts the wakeup of a task that runs on tokio. The executor counts the wakeups of its own
    /// tasks.
    pub(crate) fn count_wakeup(&self) {
        if self.event_loop.is_tokio() {
            self.engine.borrow_mut().meter.count(Counter::Wakeups);
        }
    }
}

impl Metered for LoginServer {
    fn engine_context(&self) -> &RefCell<EngineContext> {
        &self.engine
    }
}

impl WaitObserver for LoginServer {
    fn before_wait(&self) {
        self.engine.borrow_mut().meter.enter(Account::Outside);
    }

    fn after_wait(&self) {
        let meter = &mut self.engine.borrow_mut().meter;
        meter.enter(Account::Application);
        meter.count(Counter::Wakeups);
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
        return Ok(Service::Users(Mutex::new(Arc::new(Users::read(path)?))));
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
