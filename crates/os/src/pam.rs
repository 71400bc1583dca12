//! Pluggable authentication: who a user of this machine is, as its administrator has it proved.
//!
//! The library is opened when it is asked for, so nothing is needed to build this and a machine
//! without it still runs the rest. What it loads is others' code, which forks, waits, changes
//! signal handlers and the user of its process: a server asks in a process of its own.
//!
//! What the modules of a session do to the process that calls them (limits, a key ring, a terminal)
//! falls on that process too, which has to stay until the session is closed.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr;

const LIBRARY: &CStr = c"libpam.so.0";
/// The longest name that a module may give a user; ours.
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
/// The most prompts of one call.
const PROMPTS_MAX: usize = 32;

/// Why nobody has proved anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PamError {
    /// This machine has no such library.
    Missing,
    /// A module says no, or the service is not set up. What was wrong is nobody's business.
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

/// Who wants to be let in, and what he says.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    /// The file of rules; where there is none, those of "other" hold.
    pub service: &'a str,
    /// The name.
    pub user: &'a str,
    /// The password.
    pub password: &'a [u8],
    /// Where he is, for the rules and the log.
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

/// The functions of the library, which stays open.
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

/// What the prompts are answered with.
struct Answers {
    user: CString,
    password: CString,
}

/// Somebody who has proved who he is. When it is dropped, his session is closed.
pub struct Proved {
    library: Library,
    handle: Handle,
    /// Made for the library, which is given their places; freed when it has ended.
    conversation: *mut Conversation,
    answers: *mut Answers,
    name: String,
    has_session: bool,
    /// What the library has said last.
    status: c_int,
}

impl fmt::Debug for Proved {
    /// The password is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, has_session, .. } = self;
        f.debug_struct("Proved")
            .field("name", name)
            .field("has_session", has_session)
            .finish_non_exhaustive()
    }
}

/// Asks who `claim` is, and whether he may come now; waits for the modules.
///
/// # Errors
///
/// If there is no library, or it does not let him in.
pub fn authenticate(claim: Claim<'_>) -> Result<Proved, PamError> {
    let text = |text: &[u8]| CString::new(text).map_err(|_| PamError::Refused);
    let (service, host) = (text(claim.service.as_bytes())?, text(claim.host.as_bytes())?);
    let answers = Answers { user: text(claim.user.as_bytes())?, password: text(claim.password)? };
    let library = Library::open().ok_or(PamError::Missing)?;
    let answers = Box::into_raw(Box::new(answers));
    let conversation = Box::into_raw(Box::new(Conversation { converse, data: answers.cast() }));
    let (handle, name) = (ptr::null_mut(), String::new());
    let mut proved = Proved {
        library,
        handle,
        conversation,
        answers,
        name,
        has_session: false,
        status: PAM_SUCCESS,
    };
    // SAFETY: strings that end, a conversation that outlives the handle, and room for the handle.
    let started = unsafe {
        let user = (*answers).user.as_ptr();
        (proved.library.start)(service.as_ptr(), user, conversation, &raw mut proved.handle)
    };
    if started != PAM_SUCCESS || proved.handle.is_null() {
        return Err(PamError::Refused);
    }
    let (library, handle) = (&proved.library, proved.handle);
    // SAFETY: the handle was started; items are strings that end, which the library copies, and a
    // function of the kind that it calls.
    unsafe {
        (library.set_item)(handle, PAM_RHOST, host.as_ptr().cast());
        (library.set_item)(handle, PAM_TTY, c"ftp".as_ptr().cast());
        // Who serves holds wrong answers back himself, and nobody else waits for that.
        (library.set_item)(handle, PAM_FAIL_DELAY, no_delay as *const c_void);
    }
    let flags = PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK;
    proved.call(|library| library.authenticate, flags)?;
    proved.call(|library| library.account, flags)?;
    // SAFETY: the handle was started and has not ended.
    let name = unsafe { proved.library.user(proved.handle) };
    proved.name = name.ok_or(PamError::Refused)?;
    Ok(proved)
}

impl Proved {
    /// Returns the name of the user, which modules may have changed.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens his session, and forgets his password; waits for the modules.
    ///
    /// # Errors
    ///
    /// If a module does not open it.
    pub fn open_session(&mut self) -> Result<(), PamError> {
        self.call(|library| library.set_credentials, PAM_SILENT | PAM_ESTABLISH_CRED)?;
        if let Err(error) = self.call(|library| library.open_session, PAM_SILENT) {
            // What it did not open it need not close; the credentials go as they came.
            _ = self.call(|library| library.set_credentials, PAM_SILENT | PAM_DELETE_CRED);
            return Err(error);
        }
        self.has_session = true;
        // SAFETY: the answers are ours until the handle has ended; no module runs now.
        let password = unsafe { std::mem::take(&mut (*self.answers).password) };
        let mut password = password.into_bytes();
        password.fill(0);
        std::hint::black_box(&password);
        Ok(())
    }

    fn call(
        &mut self,
        function: impl Fn(&Library) -> WithFlags,
        flags: c_int,
    ) -> Result<(), PamError> {
        // SAFETY: a function of the library, and a handle that was started and has not ended.
        self.status = unsafe { function(&self.library)(self.handle, flags) };
        if self.status == PAM_SUCCESS { Ok(()) } else { Err(PamError::Refused) }
    }
}

impl Drop for Proved {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            if self.has_session {
                // What a module does not close is its own affair: there is nobody left to tell.
                _ = self.call(|library| library.close_session, PAM_SILENT);
                _ = self.call(|library| library.set_credentials, PAM_SILENT | PAM_DELETE_CRED);
            }
            // SAFETY: the handle was started, and nobody uses it behind this.
            unsafe { (self.library.end)(self.handle, self.status) };
        }
        // SAFETY: both were made by boxes, and the library that knew them has ended.
        unsafe {
            drop(Box::from_raw(self.conversation));
            drop(Box::from_raw(self.answers));
        }
    }
}

impl Library {
    fn open() -> Option<Self> {
        // SAFETY: a string that ends; the library may run code of its own when it is loaded, which
        // is what everybody who uses it lets it do.
        let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return None;
        }
        let find = |name: &CStr| {
            // SAFETY: the handle is open, and the name ends.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        // SAFETY: each is the function of this name in the interface of Linux-PAM 1.x, and has the
        // type that its manual page gives.
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

    /// Returns the user as the modules have him now.
    ///
    /// # Safety
    ///
    /// `handle` is started and has not ended.
    unsafe fn user(&self, handle: Handle) -> Option<String> {
        let mut item = ptr::null();
        // SAFETY: as above, with room for the pointer.
        let status = unsafe { (self.get_item)(handle, PAM_USER, &raw mut item) };
        if status != PAM_SUCCESS || item.is_null() {
            return None;
        }
        // SAFETY: the item is a string of the library's, which ends and stays until `end`.
        let name = unsafe { CStr::from_ptr(item.cast()) };
        name.to_str().ok().filter(|name| name.len() <= NAME_LEN).map(str::to_owned)
    }
}

/// # Safety
///
/// `found` is a function of this type.
unsafe fn function(found: *mut c_void) -> WithFlags {
    // SAFETY: the caller says so.
    unsafe { std::mem::transmute::<*mut c_void, WithFlags>(found) }
}

extern "C" fn no_delay(_status: c_int, _micros: libc::c_uint, _data: *mut c_void) {}

/// Answers what the modules ask: a password where nothing is shown, else the name.
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
    // SAFETY: `data` are the answers that `authenticate` holds as long as the handle lives; there
    // are `count` messages, each a pointer in a row (as Linux has it). The room that is made is
    // freed by the modules, with the strings in it.
    unsafe {
        let answers = &*data.cast_const().cast::<Answers>();
        let room = libc::calloc(count, size_of::<Response>()).cast::<Response>();
        if room.is_null() {
            return PAM_BUF_ERR;
        }
        for at in 0..count {
            let message = *messages.add(at);
            let answer = match (!message.is_null()).then(|| (*message).style) {
                Some(PAM_PROMPT_ECHO_OFF) => libc::strdup(answers.password.as_ptr()),
                Some(PAM_PROMPT_ECHO_ON) => libc::strdup(answers.user.as_ptr()),
                _ => ptr::null_mut(),
            };
            (*room.add(at)).text = answer;
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
        let asked = [message(PAM_PROMPT_ECHO_OFF), message(PAM_PROMPT_ECHO_ON), message(4)];
        let mut pointers: Vec<*const Message> = asked.iter().map(ptr::from_ref).collect();
        let mut room = ptr::null_mut();
        let data = ptr::from_ref(&answers).cast_mut().cast();
        assert_eq!(converse(3, pointers.as_mut_ptr(), &raw mut room, data), PAM_SUCCESS);
        // SAFETY: three responses were made, of which two are strings of malloc.
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
    fn a_name_with_a_nul_and_one_that_nobody_has_are_refused() {
        let claim = Claim { service: "other", user: "a\0b", password: b"x", host: "192.0.2.1" };
        assert_eq!(authenticate(claim).err(), Some(PamError::Refused));
        let claim = Claim { user: "no such user", ..claim };
        // Where there is no library nobody is let in either.
        assert!(authenticate(claim).is_err());
    }
}
