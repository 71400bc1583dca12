//! Parser for command lines and the arguments of commands.

use super::*;

impl Command {
    /// Parses one command line, without its line end.
    ///
    /// # Errors
    ///
    /// Returns [`CommandError`] if the line is not a supported command with a valid argument.
    pub fn parse(line: &[u8]) -> Result<Self, CommandError> {
        let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
        let (text, argument) = line.split_at_checked(end).unwrap_or((line, &[]));
        let verb = Verb::from_text(text).ok_or(CommandError::Unrecognized)?;
        // One space separates verb and argument; further spaces may belong to a file name.
        let argument = argument.get(1..).unwrap_or_default();
        if has_control(argument) {
            return Err(CommandError::Syntax(verb));
        }
        command(verb, argument)
    }
}

/// Parses `argument`, which has no CR, LF or NUL, by the rules of `verb`.
fn command(verb: Verb, argument: &[u8]) -> Result<Command, CommandError> {
    let syntax_error = CommandError::Syntax(verb);
    let name = || Name::new(argument).map_err(|_| syntax_error);
    let optional_name = || match argument {
        b"" => Ok(None),
        _ => name().map(Some),
    };
    let secret = || Secret::new(argument).map_err(|_| syntax_error);
    let word = argument.trim_ascii();
    let no_argument =
        |command: Command| if word.is_empty() { Ok(command) } else { Err(syntax_error) };
    let address = |result: Result<SocketAddr, AddressError>| {
        result.map_err(|error| match error {
            AddressError::Syntax => syntax_error,
            AddressError::Family => CommandError::Family(verb),
        })
    };
    match verb {
        Verb::User => name().map(Command::User),
        Verb::Pass => secret().map(Command::Pass),
        Verb::Acct => secret().map(Command::Acct),
        Verb::Cwd => name().map(Command::Cwd),
        Verb::Cdup => no_argument(Command::Cdup),
        Verb::Smnt => name().map(Command::Smnt),
        Verb::Rein => no_argument(Command::Rein),
        Verb::Quit => Ok(Command::Quit),
        Verb::Port => address(parse_port(argument)).map(Command::Port),
        Verb::Pasv => Ok(Command::Pasv),
        Verb::Lprt => address(parse_lprt(argument)).map(Command::Lprt),
        Verb::Lpsv => Ok(Command::Lpsv),
        Verb::Eprt => address(parse_eprt(argument)).map(Command::Eprt),
        Verb::Type => data_type(word).map(Command::Type),
        Verb::Stru => structure(word).map(Command::Stru),
        Verb::Mode => mode(word).map(Command::Mode),
        Verb::Retr => name().map(Command::Retr),
        Verb::Stor => name().map(Command::Stor),
        Verb::Stou => optional_name().map(Command::Stou),
        Verb::Appe => name().map(Command::Appe),
        Verb::Allo => allocation(word).ok_or(syntax_error).map(Command::Allo),
        // RFC 3659 §5.1: in stream mode a restart marker is an offset in bytes.
        Verb::Rest => number(word).ok_or(syntax_error).map(Command::Rest),
        Verb::Rnfr => name().map(Command::Rnfr),
        Verb::Rnto => name().map(Command::Rnto),
        Verb::Abor => Ok(Command::Abor),
        Verb::Dele => name().map(Command::Dele),
        Verb::Rmd => name().map(Command::Rmd),
        Verb::Mkd => name().map(Command::Mkd),
        Verb::Pwd => Ok(Command::Pwd),
        Verb::List => list_argument(argument).ok_or(syntax_error).map(Command::List),
        Verb::Nlst => list_argument(argument).ok_or(syntax_error).map(Command::Nlst),
        Verb::Stat => list_argument(argument).ok_or(syntax_error).map(Command::Stat),
        Verb::Site => site(argument),
        Verb::Syst => Ok(Command::Syst),
        Verb::Help => optional_name().map(Command::Help),
        Verb::Noop => Ok(Command::Noop),
        _ => extension(verb, argument),
    }
}

/// Parses the commands that were defined after RFC 959.
fn extension(verb: Verb, argument: &[u8]) -> Result<Command, CommandError> {
    let syntax_error = CommandError::Syntax(verb);
    let name = || Name::new(argument).map_err(|_| syntax_error);
    let optional_name = || match argument {
        b"" => Ok(None),
        _ => name().map(Some),
    };
    let word = argument.trim_ascii();
    match verb {
        Verb::Epsv => epsv(word).map(Command::Epsv),
        Verb::Auth => mechanism(word).map(Command::Auth),
        // RFC 4217 §9: with TLS the protection buffer size is always 0, whatever the client
        // requests.
        Verb::Pbsz => number(word).ok_or(syntax_error).map(|_| Command::Pbsz),
        Verb::Prot => protection(word).map(Command::Prot),
        Verb::Ccc => Ok(Command::Ccc),
        Verb::Feat => Ok(Command::Feat),
        Verb::Opts => opts(argument).map(Command::Opts),
        Verb::Lang => optional_name().map(Command::Lang),
        Verb::Host => host(word).ok_or(syntax_error).map(Command::Host),
        Verb::Mdtm => name().map(Command::Mdtm),
        Verb::Size => name().map(Command::Size),
        Verb::Mlst => optional_name().map(Command::Mlst),
        Verb::Mlsd => optional_name().map(Command::Mlsd),
        Verb::Mfmt => {
            let (time, name) = time_and_name(argument).ok_or(syntax_error)?;
            Ok(Command::Mfmt(time, name))
        }
        Verb::Mff => facts_and_name(argument),
        Verb::Hash => name().map(Command::Hash),
        Verb::Xcrc => hash_of(verb, HashAlgorithm::Crc32, argument),
        Verb::Xmd5 => hash_of(verb, HashAlgorithm::Md5, argument),
        Verb::Xsha => hash_of(verb, HashAlgorithm::Sha1, argument),
        Verb::Xsha256 => hash_of(verb, HashAlgorithm::Sha256, argument),
        Verb::Xsha512 => hash_of(verb, HashAlgorithm::Sha512, argument),
        Verb::Comb => {
            let mut names = name_list(argument).ok_or(syntax_error)?.into_iter();
            let target = names.next().ok_or(syntax_error)?;
            let parts: Vec<Name> = names.collect();
            if parts.is_empty() { Err(syntax_error) } else { Ok(Command::Comb(target, parts)) }
        }
        Verb::Avbl => optional_name().map(Command::Avbl),
        Verb::Csid => name().map(Command::Csid),
        Verb::Clnt => name().map(Command::Clnt),
        Verb::Mlfl => optional_name().map(Command::Mlfl),
        Verb::Mail => optional_name().map(Command::Mail),
        // Security mechanisms other than TLS (RFC 2228) are not implemented.
        _ => Err(CommandError::NotImplemented(verb)),
    }
}

fn number(word: &[u8]) -> Option<u64> {
    let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    if is_number { core::str::from_utf8(word).ok()?.parse().ok() } else { None }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn data_type(argument: &[u8]) -> Result<Type, CommandError> {
    let upper_case = argument.to_ascii_uppercase();
    let mut words = words(&upper_case);
    let kind = words.next().unwrap_or_default();
    let second_word = words.next();
    if words.next().is_some() {
        return Err(CommandError::Syntax(Verb::Type));
    }
    let format = || match second_word {
        None | Some(b"N") => Ok(Format::NonPrint),
        Some(b"T") => Ok(Format::Telnet),
        Some(b"C") => Ok(Format::CarriageControl),
        Some(_) => Err(CommandError::Parameter(Verb::Type)),
    };
    match (kind, second_word) {
        (b"A", _) => format().map(Type::Ascii),
        (b"E", _) => format().map(Type::Ebcdic),
        (b"I", None) => Ok(Type::Image),
        // Many clients send L8 as one word, and some send L alone.
        (b"L", None) => Ok(Type::Local(ByteSize::OCTET)),
        (b"L", Some(bits)) => local(bits),
        ([b'L', bits @ ..], None) if number(bits).is_some() => local(bits),
        (b"", _) => Err(CommandError::Syntax(Verb::Type)),
        _ => Err(CommandError::Parameter(Verb::Type)),
    }
}

fn local(bits: &[u8]) -> Result<Type, CommandError> {
    let bits = number(bits).ok_or(CommandError::Syntax(Verb::Type))?;
    let size = u8::try_from(bits).ok().and_then(ByteSize::new);
    size.map(Type::Local).ok_or(CommandError::Parameter(Verb::Type))
}

fn structure(word: &[u8]) -> Result<Structure, CommandError> {
    match word {
        b"F" | b"f" => Ok(Structure::File),
        b"R" | b"r" => Ok(Structure::Record),
        b"P" | b"p" => Ok(Structure::Page),
        b"" => Err(CommandError::Syntax(Verb::Stru)),
        _ => Err(CommandError::Parameter(Verb::Stru)),
    }
}

fn mode(word: &[u8]) -> Result<Mode, CommandError> {
    match word {
        b"S" | b"s" => Ok(Mode::Stream),
        b"B" | b"b" => Ok(Mode::Block),
        b"C" | b"c" => Ok(Mode::Compressed),
        b"Z" | b"z" => Ok(Mode::Deflate),
        b"" => Err(CommandError::Syntax(Verb::Mode)),
        _ => Err(CommandError::Parameter(Verb::Mode)),
    }
}

/// Parses the argument of ALLO, `bytes` or `bytes R bytes`. The maximum record size after R is
/// ignored.
fn allocation(argument: &[u8]) -> Option<u64> {
    let mut words = words(argument);
    let size = number(words.next()?)?;
    match (words.next(), words.next(), words.next()) {
        (None, None, None) => Some(size),
        (Some(b"R" | b"r"), Some(record), None) => number(record).map(|_| size),
        _ => None,
    }
}

/// Parses the argument of LIST, NLST and STAT: `ls` options, then the name. A name that begins with
/// `-` must be sent with `./` in front of it.
fn list_argument(argument: &[u8]) -> Option<ListArgument> {
    let mut rest = argument;
    let mut shows_hidden = false;
    while let Some(options) = rest.strip_prefix(b"-") {
        let end = options.iter().position(|&byte| byte == b' ').unwrap_or(options.len());
        let (letters, behind) = options.split_at_checked(end)?;
        if !letters.iter().all(u8::is_ascii_alphanumeric) {
            break;
        }
        shows_hidden |= letters.iter().any(|letter| matches!(letter, b'a' | b'A'));
        rest = behind.trim_ascii_start();
    }
    match rest {
        b"" => Some(ListArgument { shows_hidden, name: None }),
        _ => Some(ListArgument { shows_hidden, name: Some(Name::new(rest).ok()?) }),
    }
}

fn epsv(word: &[u8]) -> Result<Epsv, CommandError> {
    match word {
        b"" => Ok(Epsv::Same),
        b"1" => Ok(Epsv::Family(Family::Ipv4)),
        b"2" => Ok(Epsv::Family(Family::Ipv6)),
        _ if word.eq_ignore_ascii_case(b"ALL") => Ok(Epsv::All),
        _ if number(word).is_some() => Err(CommandError::Family(Verb::Epsv)),
        _ => Err(CommandError::Syntax(Verb::Epsv)),
    }
}

/// Parses the argument of HOST: a DNS name or a literal address (IPv6 in brackets), without a port
/// (RFC 7151 §3.1).
fn host(word: &[u8]) -> Option<Name> {
    let ipv6_literal = word.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let is_host = match ipv6_literal {
        Some(ipv6_literal) => {
            let text = core::str::from_utf8(ipv6_literal).ok()?;
            text.parse::<core::net::Ipv6Addr>().is_ok()
        }
        None => word.split(|&byte| byte == b'.').enumerate().all(|(at, label)| {
            let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
            let is_label = !label.is_empty() && label.len() <= 63 && label.iter().all(is_letter);
            // A fully qualified name may end with a period.
            is_label || (label.is_empty() && at > 0 && word.ends_with(b"."))
        }),
    };
    if is_host && word.len() <= 254 { Name::new(word).ok() } else { None }
}

fn mechanism(word: &[u8]) -> Result<Mechanism, CommandError> {
    match word.to_ascii_uppercase().as_slice() {
        b"TLS" | b"TLS-C" => Ok(Mechanism::Tls),
        b"SSL" | b"TLS-P" => Ok(Mechanism::Ssl),
        b"" => Err(CommandError::Syntax(Verb::Auth)),
        _ => Err(CommandError::Parameter(Verb::Auth)),
    }
}

fn protection(word: &[u8]) -> Result<Protection, CommandError> {
    match word {
        b"C" | b"c" => Ok(Protection::Clear),
        b"P" | b"p" => Ok(Protection::Private),
        b"S" | b"s" | b"E" | b"e" => Err(CommandError::Protection(Verb::Prot)),
        b"" => Err(CommandError::Syntax(Verb::Prot)),
        _ => Err(CommandError::Parameter(Verb::Prot)),
    }
}

fn opts(argument: &[u8]) -> Result<Opts, CommandError> {
    let unsupported = CommandError::Parameter(Verb::Opts);
    let end = argument.iter().position(|&byte| byte == b' ').unwrap_or(argument.len());
    let (keyword, value) = argument.split_at_checked(end).ok_or(unsupported)?;
    let value = value.trim_ascii().to_ascii_uppercase();
    match (keyword.to_ascii_uppercase().as_slice(), value.as_slice()) {
        // Some clients send "UTF-8", and some omit ON.
        (b"UTF8" | b"UTF-8", b"" | b"ON") => Ok(Opts::Utf8(true)),
        (b"UTF8" | b"UTF-8", b"OFF") => Ok(Opts::Utf8(false)),
        (b"MLST", facts) => Ok(Opts::Mlst(FactSet::parse(facts))),
        (b"HASH", b"") => Ok(Opts::Hash(None)),
        (b"HASH", name) => {
            HashAlgorithm::from_name(name).ok_or(unsupported).map(|a| Opts::Hash(Some(a)))
        }
        (b"MODE", value) => {
            let level = value.strip_prefix(b"Z LEVEL ").and_then(number).ok_or(unsupported)?;
            match u8::try_from(level) {
                Ok(level @ 1..=9) => Ok(Opts::DeflateLevel(level)),
                _ => Err(unsupported),
            }
        }
        (b"", _) => Err(CommandError::Syntax(Verb::Opts)),
        _ => Err(unsupported),
    }
}

/// Parses the argument of SITE.
fn site(argument: &[u8]) -> Result<Command, CommandError> {
    let syntax_error = CommandError::Syntax(Verb::Site);
    let end = argument.iter().position(|&byte| byte == b' ').unwrap_or(argument.len());
    let (keyword, rest) = argument.split_at_checked(end).ok_or(syntax_error)?;
    let rest = rest.get(1..).unwrap_or_default();
    let site = match keyword.to_ascii_uppercase().as_slice() {
        b"HELP" => Site::Help,
        b"CHMOD" => {
            let space_index = rest.iter().position(|&byte| byte == b' ').ok_or(syntax_error)?;
            let (mode, name) = rest.split_at_checked(space_index).ok_or(syntax_error)?;
            let name = Name::new(name.get(1..).unwrap_or_default()).map_err(|_| syntax_error)?;
            Site::Chmod(octal(mode).ok_or(syntax_error)?, name)
        }
        b"UTIME" => {
            let (time, name) =
                time_and_name(rest).or_else(|| name_and_times(rest)).ok_or(syntax_error)?;
            Site::Utime(time, name)
        }
        b"PARTIAL" => Site::Partial(Name::new(rest).map_err(|_| syntax_error)?),
        b"" => return Err(syntax_error),
        _ => return Err(CommandError::Parameter(Verb::Site)),
    };
    Ok(Command::Site(site))
}

fn octal(text: &[u8]) -> Option<u16> {
    let is_octal = !text.is_empty() && text.iter().all(|digit| (b'0'..=b'7').contains(digit));
    let text = core::str::from_utf8(text).ok().filter(|_| is_octal)?;
    u16::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777)
}

/// Parses `YYYYMMDDHHMMSS name`; the seconds are optional.
fn time_and_name(argument: &[u8]) -> Option<(Timestamp, Name)> {
    let space_index = argument.iter().position(|&byte| byte == b' ')?;
    let (time, name) = argument.split_at_checked(space_index)?;
    let time_with_seconds = if time.len() == 12 { [time, b"00"].concat() } else { time.to_vec() };
    Some((Timestamp::parse(&time_with_seconds)?, Name::new(name.get(1..)?).ok()?))
}

/// Parses `name YYYYMMDDHHMMSS YYYYMMDDHHMMSS YYYYMMDDHHMMSS UTC`: the times of access,
/// modification and creation.
fn name_and_times(argument: &[u8]) -> Option<(Timestamp, Name)> {
    let mut words = argument.rsplitn(5, |&byte| byte == b' ');
    let zone = words.next()?;
    let _made = words.next()?;
    let modified = words.next()?;
    let _read = words.next()?;
    let name = words.next().filter(|_| zone.eq_ignore_ascii_case(b"UTC"))?;
    Some((Timestamp::parse(modified)?, Name::new(name).ok()?))
}

/// Parses `Modify=20010203040506;UNIX.mode=0644; name`.
fn facts_and_name(argument: &[u8]) -> Result<Command, CommandError> {
    let syntax_error = CommandError::Syntax(Verb::Mff);
    let end = argument.windows(2).position(|pair| pair == b"; ").ok_or(syntax_error)?;
    let (facts, name) = argument.split_at_checked(end).ok_or(syntax_error)?;
    let name = Name::new(name.get(2..).unwrap_or_default()).map_err(|_| syntax_error)?;
    let mut set = SetFacts::default();
    for fact in facts.split(|&byte| byte == b';') {
        let equals_index = fact.iter().position(|&byte| byte == b'=').ok_or(syntax_error)?;
        let (key, value) = fact.split_at_checked(equals_index).ok_or(syntax_error)?;
        let value = value.get(1..).unwrap_or_default();
        let time = || Timestamp::parse(value).ok_or(syntax_error).map(Some);
        match key.to_ascii_lowercase().as_slice() {
            b"modify" => set.modified = time()?,
            b"create" => set.created = time()?,
            b"unix.mode" => set.mode = Some(octal(value).ok_or(syntax_error)?),
            _ => return Err(CommandError::Parameter(Verb::Mff)),
        }
    }
    Ok(Command::Mff(set, name))
}

fn hash_of(verb: Verb, hash: HashAlgorithm, argument: &[u8]) -> Result<Command, CommandError> {
    let (name, range) = range_of(argument).ok_or(CommandError::Syntax(verb))?;
    Ok(Command::HashOf(hash, range, name))
}

/// Parses a name, optionally quoted, followed by up to two numbers.
///
/// Without quotes, numbers at the end of the argument are a range only if a name precedes them.
fn range_of(argument: &[u8]) -> Option<(Name, Range)> {
    if argument.starts_with(b"\"") {
        let (name, rest) = quoted_name(argument)?;
        let mut numbers = words(rest).map(number);
        let start = numbers.next();
        let end = numbers.next();
        let range = match (start, end, numbers.next()) {
            (None, None, None) => Range::default(),
            (Some(start), None, None) => Range { start: start?, end: None },
            (Some(start), Some(end), None) => Range { start: start?, end: Some(end?) },
            _ => return None,
        };
        return Some((name, range));
    }
    let mut parts = argument.rsplitn(3, |&byte| byte == b' ');
    let last_word = parts.next()?;
    let second_last_word = parts.next();
    let name = parts.next();
    if let (Some(end), Some(start), Some(name)) =
        (number(last_word), second_last_word.and_then(number), name)
    {
        return Some((Name::new(name).ok()?, Range { start, end: Some(end) }));
    }
    match (number(last_word), second_last_word) {
        (Some(start), Some(_)) => {
            let name = argument.get(..argument.len() - last_word.len() - 1)?;
            Some((Name::new(name).ok()?, Range { start, end: None }))
        }
        _ => Some((Name::new(argument).ok()?, Range::default())),
    }
}

/// Parses names, each either quoted or without spaces.
fn name_list(argument: &[u8]) -> Option<Vec<Name>> {
    let mut names = Vec::new();
    let mut rest = argument.trim_ascii_start();
    while !rest.is_empty() {
        let (name, behind) = if rest.starts_with(b"\"") {
            quoted_name(rest)?
        } else {
            let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
            let (name, behind) = rest.split_at_checked(end)?;
            (Name::new(name).ok()?, behind)
        };
        names.push(name);
        rest = behind.trim_ascii_start();
    }
    Some(names)
}

fn quoted_name(text: &[u8]) -> Option<(Name, &[u8])> {
    let rest = text.strip_prefix(b"\"")?;
    let end = rest.iter().position(|&byte| byte == b'"')?;
    let (name, behind) = rest.split_at_checked(end)?;
    Some((Name::new(name).ok()?, behind.get(1..)?))
}
