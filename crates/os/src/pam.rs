//! Pluggable authentication modules (PAM): authenticates users as the machine's administrator has
//! configured.
//!
//! The library is loaded on first use. Therefore building requires no PAM headers, and on a machine
//! without PAM everything else works. The modules are foreign code that forks, waits, and changes
//! signal handlers and the user of its process: a server must authenticate in a separate process.
//!
//! Session modules change the process that calls them (limits, a key ring, a terminal). That
//! process must exist until the session is closed.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr;

const LIBRARY: &CStr = c"libpam.so.0";
/// Maximum length in bytes of a user name returned by a module; our own limit.
const NAME_LEN: usize = 256;

const PAM_SUCCESS: c_int = 0;
const PAM_BUF_ERR: c_int = 5;
const PAM_CONV_ERR: c_int = 19;
const PAM_USER: c_int = 2;
const PAM_TTY: c_int = 3;
const PAM_RHOST: c_int = 4;
const PAM_FAIL_DELAY: c_int = 10;
const PAM_PROMPT_ECHO_OFF: c_int = 1;
const PAM_PROMPT_ECHO_ON: c_int = 2;
const PAM_SILENT: c_int = 0x8000;
const PAM_ESTABLISH_CRED: c_int = 2;
const PAM_DELETE_CRED: c_int = 4;
const PAM_DISALLOW_NULL_AUTHTOK: c_int = 1;
/// Maximum number of prompts per call of [`converse`].
const PROMPTS_MAX: usize = 32;

/// Reason for which authentication failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PamError {
    /// The machine has no libpam.
    Missing,
    /// A module refuses, or the service is not configured. The exact reason is not reported.
    Refused,
}

impl fmt::Display for PamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "this machine has no libpam",
            Self::Refused => "PAM refuses",
        })
    }
}

impl std::error::Error for PamError {}

/// Credentials to authenticate.
#[derive(Clone, Copy)]
pub struct LoginCredentials<'a> {
    /// PAM service name; if it has no rule file, the rules of "other" apply.
    pub service: &'a str,
    /// User name.
    pub user: &'a str,
    /// Password.
    pub password: &'a [u8],
    /// Remote host of the user, for the PAM rules and the system log.
    pub host: &'a str,
}

#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

#[repr(C)]
struct Response {
    text: *mut c_char,
    code: c_int,
}

type Converse = extern "C" fn(c_int, *mut *const Message, *mut *mut Response, *mut c_void) -> c_int;

#[repr(C)]
struct Conversation {
    converse: Converse,
    data: *mut c_void,
}

type Handle = *mut c_void;
type Start =
    unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *mut Handle) -> c_int;
type WithFlags = unsafe extern "C" fn(Handle, c_int) -> c_int;
type SetItem = unsafe extern "C" fn(Handle, c_int, *const c_void) -> c_int;
type GetItem = unsafe extern "C" fn(Handle, c_int, *mut *const c_void) -> c_int;

/// Functions of the library, which stays loaded.
struct Library {
    start: Start,
    authenticate: WithFlags,
    account: WithFlags,
    set_credentials: WithFlags,
    open_session: WithFlags,
    close_session: WithFlags,
    set_item: SetItem,
    get_item: GetItem,
    end: WithFlags,
}

/// Values with which the prompts of the modules are answered.
struct Answers {
    user: CString,
    password: CString,
}

impl Answers {
    /// Overwrites the password with zeros, and replaces it with an empty one.
    fn erase_password(&mut self) {
        let mut password = std::mem::take(&mut self.password).into_bytes();
        password.fill(0);
        std::hint::black_box(&password);
    }
}

/// A user that was not authenticated has a password too.
impl Drop for Answers {
    fn drop(&mut self) {
        self.erase_password();
    }
}

/// An authenticated user. Dropping it closes the user's session.
pub struct AuthenticatedUser {
    library: Library,
    handle: Handle,
    /// Conversation that is passed to the library as a pointer; freed after `pam_end`.
    conversation: *mut Conversation,
    answers: *mut Answers,
    name: String,
    has_session: bool,
    /// Last return value of the library, passed to `pam_end`.
    status: c_int,
}

impl fmt::Debug for AuthenticatedUser {
    /// Formats the credentials without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, has_session, .. } = self;
        f.debug_struct("Proved")
            .field("name", name)
            .field("has_session", has_session)
            .finish_non_exhaustive()
    }
}

/// Authenticates `credentials`, and checks that the account may be used now. Blocks while the
/// modules run.
///
/// # Errors
///
/// Returns an error if the machine has no libpam, or if a module refuses.
pub fn authenticate(credentials: LoginCredentials<'_>) -> Result<AuthenticatedUser, PamError> {
    let text = |text: &[u8]| CString::new(text).map_err(|_| PamError::Refused);
    let service = text(credentials.service.as_bytes())?;
    let host = text(credentials.host.as_bytes())?;
    let answers =
        Answers { user: text(credentials.user.as_bytes())?, password: text(credentials.password)? };
    let library = Library::open().ok_or(PamError::Missing)?;
    let answers = Box::into_raw(Box::new(answers));
    let conversation = Box::into_raw(Box::new(Conversation { converse, data: answers.cast() }));
    let handle = ptr::null_mut();
    let name = String::new();
    let mut authenticated_user = AuthenticatedUser {
        library,
        handle,
        conversation,
        answers,
        name,
        has_session: false,
        status: PAM_SUCCESS,
    };
    // SAFETY: the strings are NUL-terminated, the conversation outlives the handle, and the handle
    // is written to a valid place.
    let status = unsafe {
        let user = (*answers).user.as_ptr();
        (authenticated_user.library.start)(
            service.as_ptr(),
            user,
            conversation,
            &raw mut authenticated_user.handle,
        )
    };
    if status != PAM_SUCCESS || authenticated_user.handle.is_null() {
        return Err(PamError::Refused);
    }
    let library = &authenticated_user.library;
    let handle = authenticated_user.handle;
    // SAFETY: the handle was started; the items are NUL-terminated strings, which the library
    // copies, and a function of the type that it calls.
    unsafe {
        (library.set_item)(handle, PAM_RHOST, host.as_ptr().cast());
        (library.set_item)(handle, PAM_TTY, c"ftp".as_ptr().cast());
        // The server itself delays the response to a wrong password, without delaying other
        // clients.
        (library.set_item)(handle, PAM_FAIL_DELAY, no_delay as *const c_void);
    }
    let flags = PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK;
    authenticated_user.call(|library| library.authenticate, flags)?;
    authenticated_user.call(|library| library.account, flags)?;
    // SAFETY: the handle was started and has not ended.
    let name = unsafe { authenticated_user.library.user(authenticated_user.handle) };
    authenticated_user.name = name.ok_or(PamError::Refused)?;
    Ok(authenticated_user)
}

impl AuthenticatedUser {
    /// Returns the name of the user, which modules may have changed.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens the user's session, and erases the password. Blocks while the modules run.
    ///
    /// # Errors
    ///
    /// Returns an error if a module refuses to open the session.
    pub fn open_session(&mut self) -> Result<(), PamError> {
        self.call(|library| library.set_credentials, PAM_SILENT | PAM_ESTABLISH_CRED)?;
        if let Err(error) = self.call(|library| library.open_session, PAM_SILENT) {
            // A session that was not opened need not be closed; only the credentials are deleted.
            _ = self.call(|library| library.set_credentials, PAM_SILENT | PAM_DELETE_CRED);
            return Err(error);
        }
        self.has_session = true;
        // SAFETY: `self` owns the answers until the handle has ended, and no module runs now.
        unsafe { (*self.answers).erase_password() };
        Ok(())
    }

    fn call(
        &mut self,
        function: impl Fn(&Library) -> WithFlags,
        flags: c_int,
    ) -> Result<(), PamError> {
        // SAFETY: the function belongs to the library, and the handle was started and has not
        // ended.
        self.status = unsafe { function(&self.library)(self.handle, flags) };
        if self.status == PAM_SUCCESS { Ok(()) } else { Err(PamError::Refused) }
    }
}

impl Drop for AuthenticatedUser {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            if self.has_session {
                // A failure to close the session cannot be reported any more.
                _ = self.call(|library| library.close_session, PAM_SILENT);
                _ = self.call(|library| library.set_credentials, PAM_SILENT | PAM_DELETE_CRED);
            }
            // SAFETY: the handle was started, and is not used afterwards.
            unsafe { (self.library.end)(self.handle, self.status) };
        }
        // SAFETY: both pointers come from boxes, and the library that had copies of them has ended.
        unsafe {
            drop(Box::from_raw(self.conversation));
            drop(Box::from_raw(self.answers));
        }
    }
}

impl Library {
    fn open() -> Option<Self> {
        // SAFETY: the string is NUL-terminated. The library may run its own initialization code, as
        // in every program that loads it.
        let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return None;
        }
        let find = |name: &CStr| {
            // SAFETY: the handle is open, and the name is NUL-terminated.
            let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
            (!symbol.is_null()).then_some(symbol)
        };
        // SAFETY: each function has this name in the interface of Linux-PAM 1.x, and the type in
        // its manual page.
        unsafe {
            Some(Self {
                start: std::mem::transmute::<*mut c_void, Start>(find(c"pam_start")?),
                authenticate: function(find(c"pam_authenticate")?),
                account: function(find(c"pam_acct_mgmt")?),
                set_credentials: function(find(c"pam_setcred")?),
                open_session: function(find(c"pam_open_session")?),
                close_session: function(find(c"pam_close_session")?),
                set_item: std::mem::transmute::<*mut c_void, SetItem>(find(c"pam_set_item")?),
                get_item: std::mem::transmute::<*mut c_void, GetItem>(find(c"pam_get_item")?),
                end: function(find(c"pam_end")?),
            })
        }
    }

    /// Returns the current user name, which modules may have changed.
    ///
    /// # Safety
    ///
    /// `handle` was started and has not ended.
    unsafe fn user(&self, handle: Handle) -> Option<String> {
        let mut item = ptr::null();
        // SAFETY: the handle was started and has not ended, and the item pointer is written to a
        // valid place.
        let status = unsafe { (self.get_item)(handle, PAM_USER, &raw mut item) };
        if status != PAM_SUCCESS || item.is_null() {
            return None;
        }
        // SAFETY: the item is a NUL-terminated string of the library, which stays valid until
        // `pam_end`.
        let name = unsafe { CStr::from_ptr(item.cast()) };
        name.to_str().ok().filter(|name| name.len() <= NAME_LEN).map(str::to_owned)
    }
}

/// # Safety
///
/// `symbol` must be a function of this type.
unsafe fn function(symbol: *mut c_void) -> WithFlags {
    // SAFETY: guaranteed by the caller.
    unsafe { std::mem::transmute::<*mut c_void, WithFlags>(symbol) }
}

extern "C" fn no_delay(_status: c_int, _micros: libc::c_uint, _data: *mut c_void) {}

/// Responds to the prompts of the modules: with the password if echo is off, otherwise with the
/// user name.
extern "C" fn converse(
    count: c_int,
    messages: *mut *const Message,
    responses: *mut *mut Response,
    data: *mut c_void,
) -> c_int {
    let Ok(count @ 1..=PROMPTS_MAX) = usize::try_from(count) else { return PAM_CONV_ERR };
    if messages.is_null() || responses.is_null() || data.is_null() {
        return PAM_CONV_ERR;
    }
    // SAFETY: `data` points to the answers that `authenticate` keeps as long as the handle lives.
    // There are `count` messages, in an array of pointers (as Linux-PAM passes them). The modules
    // free the allocated responses and the strings in them.
    unsafe {
        let answers = &*data.cast_const().cast::<Answers>();
        let room = libc::calloc(count, size_of::<Response>()).cast::<Response>();
        if room.is_null() {
            return PAM_BUF_ERR;
        }
        for at in 0..count {
            let message = *messages.add(at);
            let reply_text = match (!message.is_null()).then(|| (*message).style) {
                Some(PAM_PROMPT_ECHO_OFF) => libc::strdup(answers.password.as_ptr()),
                Some(PAM_PROMPT_ECHO_ON) => libc::strdup(answers.user.as_ptr()),
                _ => ptr::null_mut(),
            };
            (*room.add(at)).text = reply_text;
        }
        *responses = room;
    }
    PAM_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_answered_by_their_kind() {
        let answers = Answers { user: c"ann".to_owned(), password: c"secret".to_owned() };
        let message = |style| Message { style, text: c"?".as_ptr() };
        let prompts = [message(PAM_PROMPT_ECHO_OFF), message(PAM_PROMPT_ECHO_ON), message(4)];
        let mut pointers: Vec<*const Message> = prompts.iter().map(ptr::from_ref).collect();
        let mut room = ptr::null_mut();
        let data = ptr::from_ref(&answers).cast_mut().cast();
        assert_eq!(converse(3, pointers.as_mut_ptr(), &raw mut room, data), PAM_SUCCESS);
        // SAFETY: three responses were allocated, of which two have strings of malloc.
        unsafe {
            let texts: Vec<*mut c_char> = (0..3).map(|at| (*room.add(at)).text).collect();
            assert_eq!(CStr::from_ptr(texts[0]), c"secret");
            assert_eq!(CStr::from_ptr(texts[1]), c"ann");
            assert!(texts[2].is_null());
            texts.into_iter().for_each(|text| libc::free(text.cast()));
            libc::free(room.cast());
        }
        assert_eq!(converse(0, pointers.as_mut_ptr(), &raw mut room, data), PAM_CONV_ERR);
    }

    #[test]
    fn a_name_with_a_nul_and_an_unknown_name_are_rejected() {
        let credentials =
            LoginCredentials { service: "other", user: "a\0b", password: b"x", host: "192.0.2.1" };
        assert_eq!(authenticate(credentials).err(), Some(PamError::Refused));
        let credentials = LoginCredentials { user: "no such user", ..credentials };
        // Without the library, authentication fails too.
        assert!(authenticate(credentials).is_err());
    }
}
